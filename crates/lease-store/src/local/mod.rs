//! Engines in this process: one table behind one lock, in memory or on a disk.

mod blocking_record;
mod data;
mod durable;
mod effects;
#[cfg(feature = "embedded")]
mod embedded;
mod engine;
mod events;
mod hot_slots;
mod index;
mod memory;
mod pending_grants;
mod queue;
mod renewals;
mod retention;
mod rows;
mod slots;
mod space;
mod spent_tokens;
mod steps;
mod table;
mod timer;
mod waiting;

#[cfg(any(test, feature = "lockstep"))]
pub use embedded::Lockstep;
#[cfg(feature = "embedded")]
pub use embedded::{BlockFile, DirectFile, Directory, Options, Salvaged, Storage, StorageFile};
pub use engine::Local;

//! Stores in this process: one table behind one lock, in memory or on a disk.

mod data;
mod disk;
mod engine;
mod events;
mod foreign;
mod forget;
mod handover;
mod index;
mod memory;
mod out;
mod pending;
mod queue;
mod renewals;
mod rows;
mod slots;
mod steps;
mod table;
mod terms;
mod timer;
mod waiting;
mod ways;

#[cfg(any(test, feature = "lockstep"))]
pub use disk::Lockstep;
pub use disk::{Disk, Folder, Medium, Options};
pub use engine::Local;

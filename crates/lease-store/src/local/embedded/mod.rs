//! The embedded engine: the table of [`super`] on a disk.
//!
//! A change is decided in memory, appended to the journal, synced together with all concurrent changes, and only then
//! answered. When a journal segment is full, the writer switches to the other one and a background thread moves the rows
//! of the full one into the base (redb). Opening replays what the base has not seen.

mod base;
mod checkpoint;
mod direct_file;
mod frames;
mod heartbeat;
mod journal;
mod load;
#[cfg(any(test, feature = "lockstep"))]
mod lockstep;
mod open;
mod recovery;
mod row_check;
mod salvage;
mod storage;
mod writer;

pub use direct_file::{BlockFile, DirectFile};
pub(crate) use heartbeat::Heartbeat;
#[cfg(any(test, feature = "lockstep"))]
pub use lockstep::Lockstep;
pub use open::Options;
pub use salvage::Salvaged;
pub use storage::{Directory, Storage, StorageFile};

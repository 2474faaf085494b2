//! The embedded engine: the table of [`super`] with a disk under it.
//!
//! A change is decided in memory, appended to the journal, synced together with whatever else was decided
//! meanwhile, and only then answered. When a journal segment is full, the other takes over and a background
//! thread moves the full one's rows into the base (redb). Opening replays what the base has not seen.

mod base;
mod checkpoint;
mod desk;
mod direct;
mod journal;
mod load;
#[cfg(any(test, feature = "lockstep"))]
mod lockstep;
mod medium;
mod open;
mod stamp;
mod writer;

pub(crate) use desk::Desk;
#[cfg(any(test, feature = "lockstep"))]
pub use lockstep::Lockstep;
pub use medium::{Disk, Folder, Medium};
pub use open::Options;
pub(crate) use stamp::Stamp;

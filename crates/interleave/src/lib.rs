//! The memory and the embedded engine, compiled from the sources of `lease-store` on top of a scheduler that
//! decides who runs next at every lock, signal, atomic and thread, so that tests can try their interleavings.
//!
//! Nothing in the sources knows of it: they take their primitives from `crate::sync`, and here that is
//! [`shuttle`] under the same names. A wait never times out here: a wake-up that is lost is a deadlock, and found.

#[path = "../../lease-store/src/clock.rs"]
mod clock;
#[path = "../../lease-store/src/local/mod.rs"]
mod local;
mod sync;

pub use clock::{BootClock, OsEntropy, TokioClock};
pub use local::{Disk, Folder, Local, Medium, Options};
pub use sync::{Break, broken, leading, point};

/// Data that is there and cannot be read.
pub(crate) fn corrupt(why: impl Into<String>) -> lease::Error {
    lease::Error::unavailable("embedded", why)
}

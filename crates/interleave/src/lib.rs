//! The memory and the embedded engine, compiled from the sources of `lease-store` on a scheduler that chooses the next
//! thread at every lock, signal, atomic and spawn, so that tests can explore their interleavings.
//!
//! The sources are unchanged: they take their primitives from `crate::sync`, which is [`shuttle`] under the same names
//! here. A wait never times out here: a lost wake-up is a deadlock, which the scheduler reports.

#[path = "../../lease-store/src/local/mod.rs"]
mod local;
mod sync;

pub use local::{BlockFile, DirectFile, Directory, Local, Options, Salvaged, Storage, StorageFile};
pub use sync::{Break, inject, point};
pub use tenure_host::{BootClock, OsEntropy, TokioClock};

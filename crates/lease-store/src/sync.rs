//! Every primitive through which threads and tasks of the local engines synchronize. The crate `interleave` replaces
//! this module with a scheduler's primitives to explore their interleavings.

pub(crate) use std::sync::atomic::AtomicU64;
#[cfg(feature = "embedded")]
pub(crate) use std::sync::mpsc;
pub(crate) use std::thread;

pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
pub(crate) use tokio::sync::{Notify, oneshot};
pub(crate) use tokio::task::JoinSet;
#[cfg(feature = "embedded")]
pub(crate) use tokio::task::spawn_blocking;

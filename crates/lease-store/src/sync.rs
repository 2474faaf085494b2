//! What the threads and tasks of the local engines meet through. Behind one door, so that the crate `interleave`
//! can put a scheduler's own there and try every order.

pub(crate) use std::sync::atomic::AtomicU64;
pub(crate) use std::sync::mpsc;
pub(crate) use std::thread;

pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
pub(crate) use tokio::sync::{Notify, oneshot};
pub(crate) use tokio::task::{JoinSet, spawn_blocking};

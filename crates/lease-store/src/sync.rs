//! What the threads and tasks of the local engines meet through. Behind one door, so that the crate `interleave`
//! can put a scheduler's own there and try every order.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::runtime::{Handle, RuntimeFlavor};

pub(crate) use std::sync::atomic::AtomicU64;
pub(crate) use std::sync::mpsc;
pub(crate) use std::thread;

pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
pub(crate) use tokio::sync::{Notify, oneshot};
pub(crate) use tokio::task::{JoinSet, spawn_blocking};

/// The other threads of this one's runtime, who go on while it waits for a disk.
#[derive(Debug)]
pub(crate) struct Bystanders(Handle);

/// Somebody waits for a disk where he stands.
static TAKEN: AtomicBool = AtomicBool::new(false);

impl Bystanders {
    /// Whether there are any.
    pub(crate) fn any() -> bool {
        Handle::try_current().is_ok_and(|runtime| has_many(&runtime))
    }

    /// None if this thread has to go on: it is the only one of its runtime, or another in this process waits already.
    pub(crate) fn here() -> Option<Self> {
        let runtime = Handle::try_current().ok().filter(has_many)?;
        (!TAKEN.swap(true, Ordering::AcqRel)).then(|| Self(runtime))
    }

    /// Has one of them listen to the network and to timers, which the thread that waits may have done.
    pub(crate) fn rouse(&self) {
        drop(self.0.spawn(async {}));
    }
}

fn has_many(runtime: &Handle) -> bool {
    runtime.runtime_flavor() == RuntimeFlavor::MultiThread && runtime.metrics().num_workers() > 1
}

impl Drop for Bystanders {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::Release);
    }
}

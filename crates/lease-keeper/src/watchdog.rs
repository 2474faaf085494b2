//! The thread that ends a process whose gate is lost.
//!
//! It is an OS thread on purpose: the tasks of a runtime that is stuck (a worker blocks, all are busy, the
//! process was stopped) do not run, and that is when a fail-closed process must still die. It needs
//! nothing from the runtime: it knows the deadline and looks at the clock.

use std::sync::Arc;

use lease::Error;
use parking_lot::{Condvar, Mutex};

use crate::core::Core;
use crate::{Lost, limits};

/// What to do about a loss.
pub(crate) type OnLoss = Box<dyn FnOnce(Lost) + Send>;

/// Calls what was put into it at most once, whoever sees the loss first.
#[derive(Clone)]
pub(crate) struct Fuse {
    inner: Arc<(Mutex<Option<OnLoss>>, Condvar)>,
}

impl Fuse {
    pub(crate) fn new(on_loss: OnLoss) -> Self {
        Self { inner: Arc::new((Mutex::new(Some(on_loss)), Condvar::new())) }
    }

    /// Acts on a loss, unless that was done or called off.
    pub(crate) fn blow(&self, lost: Lost) {
        let on_loss = self.take();
        if let Some(on_loss) = on_loss {
            on_loss(lost);
        }
    }

    /// Calls it off.
    pub(crate) fn defuse(&self) {
        drop(self.take());
    }

    fn take(&self) -> Option<OnLoss> {
        let (slot, changed) = &*self.inner;
        let on_loss = slot.lock().take();
        changed.notify_all();
        on_loss
    }
}

/// Watches a lease from a thread of its own until the fuse is gone.
pub(crate) fn watch(core: Arc<Core>, fuse: Fuse) -> Result<(), Error> {
    let name = format!("gate {}", core.lease.key);
    let started = std::thread::Builder::new().name(name).spawn(move || {
        let (slot, changed) = &*fuse.inner;
        loop {
            if let Some(lost) = core.state().lost() {
                return fuse.blow(lost);
            }
            let mut armed = slot.lock();
            if armed.is_none() {
                return;
            }
            let left = core.deadline().left(core.clock.now());
            changed.wait_for(&mut armed, left.min(limits::WATCHDOG_LOOK));
        }
    });
    match started {
        Ok(_detached) => Ok(()),
        Err(error) => Err(Error::unavailable("process", "cannot start the gate's watchdog").because(error)),
    }
}

//! The thread that ends a process whose gate is lost.
//!
//! An OS thread, because tasks do not run while the runtime is blocked (a worker blocks, all are busy, the process was
//! stopped), and a fail-closed process must end even then. It needs nothing from the runtime but the deadline and a
//! clock.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use tenure_lease::Error;

use crate::held_lease::HeldLease;
use crate::{Lost, limits};

/// The handler of a loss.
pub(crate) type OnLoss = Box<dyn FnOnce(Lost) + Send>;

/// Calls the handler at most once, for whichever side detects the loss first.
#[derive(Clone)]
pub(crate) struct LossAction {
    inner: Arc<(Mutex<Option<OnLoss>>, Condvar)>,
}

impl LossAction {
    pub(crate) fn new(on_loss: OnLoss) -> Self {
        Self { inner: Arc::new((Mutex::new(Some(on_loss)), Condvar::new())) }
    }

    /// Handles a loss, unless it was handled or disarmed.
    pub(crate) fn trigger(&self, lost: Lost) {
        let on_loss = self.take();
        if let Some(on_loss) = on_loss {
            on_loss(lost);
        }
    }

    /// Prevents the handling of a loss.
    pub(crate) fn disarm(&self) {
        drop(self.take());
    }

    fn take(&self) -> Option<OnLoss> {
        let (slot, changed) = &*self.inner;
        let on_loss = slot.lock().take();
        changed.notify_all();
        on_loss
    }
}

/// Watches a lease from a thread of its own until the action was triggered or disarmed.
pub(crate) fn watch(lease: Arc<HeldLease>, action: LossAction) -> Result<(), Error> {
    let name = format!("gate {}", lease.lease.key);
    let started = std::thread::Builder::new().name(name).spawn(move || {
        let (slot, changed) = &*action.inner;
        loop {
            if let Some(lost) = lease.state().lost() {
                return action.trigger(lost);
            }
            let mut armed = slot.lock();
            if armed.is_none() {
                return;
            }
            let left = lease.deadline().left(lease.clock.now());
            changed.wait_for(&mut armed, left.min(limits::WATCHDOG_POLL));
        }
    });
    match started {
        Ok(_detached) => Ok(()),
        Err(error) => Err(Error::unavailable("process", "cannot start the gate's watchdog").because(error)),
    }
}

//! One target that this node holds: its lease, its worker, and how it has been doing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lease::{Clock, Holder, Released, Wall};
use lease_keeper::Guard;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::result::PollResult;
use crate::{Target, limits};

/// What others of this process may see of a holding.
#[derive(Debug, Default)]
pub(crate) struct Status {
    /// Milliseconds since the epoch; zero is not.
    uncertain_since: AtomicU64,
    polls: AtomicU64,
    last: Mutex<Option<Arc<PollResult>>>,
}

impl Status {
    /// Doubt begins. False when it had begun.
    pub(crate) fn uncertain(&self, now: Wall) -> bool {
        self.uncertain_since
            .compare_exchange(0, now.as_millis().max(1), Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Doubt ends. False when there was none.
    pub(crate) fn certain(&self) -> bool {
        self.uncertain_since.swap(0, Ordering::Relaxed) != 0
    }

    pub(crate) fn uncertain_since(&self) -> Option<u64> {
        Some(self.uncertain_since.load(Ordering::Relaxed)).filter(|since| *since != 0)
    }

    pub(crate) fn polled(&self, result: &Arc<PollResult>) {
        self.polls.fetch_add(1, Ordering::Relaxed);
        *self.last.lock() = Some(result.clone());
    }

    pub(crate) fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    pub(crate) fn last(&self) -> Option<Arc<PollResult>> {
        self.last.lock().clone()
    }
}

/// A lease with its worker.
pub(crate) struct Holding {
    pub(crate) guard: Guard,
    pub(crate) target: watch::Sender<Arc<Target>>,
    pub(crate) stop: CancellationToken,
    pub(crate) worker: JoinHandle<()>,
}

impl Holding {
    /// Stops the worker, waits until nothing of it is under way, and only then gives the lease back.
    pub(crate) async fn give_up(
        mut self,
        heir: Option<Holder>,
        clock: &dyn Clock,
    ) -> lease_keeper::Result<Released> {
        self.stop.cancel();
        tokio::select! {
            biased;
            _ = &mut self.worker => {}
            () = clock.sleep_until(clock.now() + limits::JOIN) => {
                self.worker.abort();
                // Aborted is gone: the request is dropped with its task.
                let _ = (&mut self.worker).await;
            }
        }
        match heir {
            Some(heir) => self.guard.release_to(heir).await,
            None => self.guard.release().await,
        }
    }
}

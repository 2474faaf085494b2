//! A target that this node owns: its lease, its worker and its status.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tenure_keeper::Guard;
use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Clock, Holder, Released, Wall};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::result::PollResult;
use crate::{Target, limits};

/// The status of an owned target, shared with the rest of the process.
#[derive(Debug, Default)]
pub(crate) struct TargetStatus {
    /// Milliseconds since the epoch; zero while ownership is certain.
    uncertain_since: AtomicU64,
    polls: AtomicU64,
    last: Mutex<Option<Arc<PollResult>>>,
}

impl TargetStatus {
    /// Marks ownership as uncertain. Returns false if it already was.
    pub(crate) fn mark_uncertain(&self, now: Wall) -> bool {
        self.uncertain_since
            .compare_exchange(0, now.as_millis().max(1), Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }

    /// Marks ownership as certain. Returns false if it already was.
    pub(crate) fn mark_certain(&self) -> bool {
        self.uncertain_since.swap(0, Ordering::Relaxed) != 0
    }

    pub(crate) fn uncertain_since(&self) -> Option<u64> {
        Some(self.uncertain_since.load(Ordering::Relaxed)).filter(|since| *since != 0)
    }

    pub(crate) fn record_poll(&self, result: &Arc<PollResult>) {
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

/// The lease of a target and the worker that polls it.
pub(crate) struct OwnedTarget {
    pub(crate) guard: Guard,
    pub(crate) target: watch::Sender<Arc<Target>>,
    pub(crate) stop: CancellationToken,
    pub(crate) worker: JoinHandle<()>,
}

impl OwnedTarget {
    /// Stops the worker, waits for its request in flight, and only then releases the lease.
    pub(crate) async fn stop_and_release(
        mut self,
        successor: Option<Holder>,
        clock: &dyn Clock,
    ) -> tenure_keeper::Result<Released> {
        self.stop.cancel();
        tokio::select! {
            biased;
            () = std::future::ready(()), if broken(Break::ReleasesDuringPoll) => {}
            _ = &mut self.worker => {}
            () = clock.sleep_until(clock.now() + limits::STOP_TIMEOUT) => {
                self.worker.abort();
                // Once the aborted task has ended, its request is dropped too.
                let _ = (&mut self.worker).await;
            }
        }
        match successor {
            Some(successor) => self.guard.release_to(successor).await,
            None => self.guard.release().await,
        }
    }
}

//! The state that all sessions of a worker share.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tenure_keeper::{Keeper, LeaseHandle, Lost, Slots};
use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Clock, Store};
use tenure_session::{SessionId, UnixMs};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::launch::{Launcher, StopTimes};
use crate::pattern::PatternSource;
use crate::record::SessionError;
use crate::{Options, limits};

/// The state of a worker.
pub(crate) struct WorkerState {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) keeper: Keeper,
    /// The guard lease, without the right to release it.
    pub(crate) guard: LeaseHandle,
    pub(crate) loss: GuardLoss,
    pub(crate) options: Options,
    pub(crate) launcher: Arc<dyn Launcher>,
    pub(crate) slots: Slots,
    pub(crate) pattern: PatternSource,
    /// Limits concurrent starts.
    pub(crate) starts: Arc<Semaphore>,
    /// Limits concurrent stops.
    pub(crate) stops: Arc<Semaphore>,
    /// Tuner slots on which a process of an ended session may still run.
    withheld: Mutex<BTreeSet<(u32, SessionId)>>,
}

/// Reports the loss of the guard. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct GuardLoss {
    token: CancellationToken,
    cause: Arc<OnceLock<Lost>>,
}

impl GuardLoss {
    /// Notifies all waiters. The first cause is kept.
    pub(crate) fn report(&self, lost: Lost) {
        let _first = self.cause.set(lost);
        self.token.cancel();
    }

    pub(crate) async fn wait(&self) -> Lost {
        self.token.cancelled().await;
        self.cause.get().copied().unwrap_or(Lost::Unconfirmed)
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.token.is_cancelled()
    }
}

impl WorkerState {
    #[expect(clippy::too_many_arguments, reason = "called only when a worker starts")]
    pub(crate) fn new(
        store: Arc<dyn Store>,
        keeper: Keeper,
        guard: LeaseHandle,
        loss: GuardLoss,
        options: Options,
        launcher: Arc<dyn Launcher>,
        slots: Slots,
        pattern: PatternSource,
    ) -> Self {
        let (starts, stops) = (Semaphore::new(options.starts), Semaphore::new(options.stops));
        Self {
            clock: store.clock(),
            store,
            keeper,
            guard,
            loss,
            options,
            launcher,
            slots,
            pattern,
            starts: Arc::new(starts),
            stops: Arc::new(stops),
            withheld: Mutex::default(),
        }
    }

    /// The wall clock time for records.
    pub(crate) fn wall(&self) -> UnixMs {
        UnixMs(self.clock.wall().as_millis())
    }

    /// Calls the store with a timeout. Fails at once when the guard is lost.
    pub(crate) async fn call_store<T>(
        &self,
        call: impl Future<Output = tenure_lease::Result<T>>,
    ) -> Result<T, SessionError> {
        let timeout = self.clock.sleep_until(self.clock.now() + limits::STORE_CALL);
        tokio::select! {
            biased;
            _ = self.loss.wait() => Err(SessionError::GuardLost),
            result = call => result.map_err(|error| SessionError::Store(error.to_string())),
            () = timeout => Err(SessionError::Store("no response in time".to_owned())),
        }
    }

    pub(crate) async fn pause(&self, time: Duration) {
        self.clock.sleep_until(self.clock.now() + time).await;
    }

    /// The deadlines of a pipeline: it must exit before any of its leases, or the guard, can pass to another holder.
    pub(crate) fn times(&self, deadline: Option<tenure_lease::Deadline>) -> StopTimes {
        let guard = self.guard.deadline();
        let deadline = deadline.map_or(guard, |deadline| deadline.min(guard));
        let shortest = self.options.lease_ttl.min(self.options.guard_ttl);
        let ttl =
            tenure_lease::Ttl::from_millis(shortest.as_millis() as u64).unwrap_or(self.guard.lease().ttl);
        if broken(Break::PipelinesOutliveLeases) {
            return StopTimes::of(
                tenure_lease::Deadline::at(deadline.tick() + Duration::from_secs(3_600)),
                ttl,
            );
        }
        StopTimes::of(deadline, ttl)
    }

    /// Withholds a tuner until no process of the session runs any more.
    pub(crate) fn withhold(&self, slot: u32, id: &SessionId) {
        self.withheld.lock().insert((slot, id.clone()));
        self.update_offered_slots();
        tracing::error!(target: crate::telemetry::TARGET, session = %id, slot, "tuner withheld: a process of the session is still running");
    }

    /// The withheld tuners, each with the session whose process is still running.
    pub(crate) fn withheld(&self) -> Vec<(u32, SessionId)> {
        self.withheld.lock().iter().cloned().collect()
    }

    /// Offers a tuner again after the processes of a session have exited, unless it is also withheld for another session.
    pub(crate) fn restore_slot(&self, slot: u32, id: &SessionId) {
        let mut withheld = self.withheld.lock();
        withheld.remove(&(slot, id.clone()));
        let free = withheld.iter().all(|(other, _)| *other != slot);
        drop(withheld);
        if free {
            self.update_offered_slots();
            tracing::info!(target: crate::telemetry::TARGET, slot, "tuner available again");
        }
    }

    fn update_offered_slots(&self) {
        let withheld = self.withheld.lock();
        let out: BTreeSet<u32> = withheld.iter().map(|(slot, _)| *slot).collect();
        let offered: BTreeSet<u32> = self.options.slots.difference(&out).copied().collect();
        // A subset of the slots given at the start, so this cannot exceed the limit.
        drop(self.slots.offer(offered));
    }
}

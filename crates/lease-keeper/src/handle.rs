//! A handle for workers that act under a lease without owning it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Deadline, Generation, Holder, Key, Lease, Tick};
use tokio::sync::watch;

use crate::held_lease::HeldLease;
use crate::permit::{Permit, PermitError};
use crate::{GuardState, Lost};

/// A lease for workers: permits, states and the deadline. Its [`Guard`](crate::Guard) decides when the lease ends; after
/// that every permit is refused.
pub struct LeaseHandle {
    lease: Arc<HeldLease>,
}

impl LeaseHandle {
    pub(crate) fn new(lease: Arc<HeldLease>) -> Self {
        Self { lease }
    }

    pub(crate) fn held_lease(&self) -> &Arc<HeldLease> {
        &self.lease
    }

    /// Another handle of this lease, for another worker.
    pub fn share(&self) -> Self {
        Self { lease: self.lease.clone() }
    }

    /// The key.
    pub fn key(&self) -> &Key {
        &self.lease.lease.key
    }

    /// The fencing number of this reign.
    pub fn generation(&self) -> Generation {
        self.lease.lease.generation
    }

    /// The holder.
    pub fn holder(&self) -> &Holder {
        &self.lease.lease.holder
    }

    /// The granted lease.
    pub fn lease(&self) -> &Lease {
        &self.lease.lease
    }

    /// The state at this moment, computed from the clock.
    pub fn state(&self) -> GuardState {
        self.lease.state()
    }

    /// The states as they change. The value is as of the keeper's last check; [`LeaseHandle::state`] is current.
    pub fn states(&self) -> watch::Receiver<GuardState> {
        self.lease.states()
    }

    /// The time after which no exclusive act is allowed, unless a renewal moves it.
    pub fn deadline(&self) -> Deadline {
        self.lease.deadline()
    }

    /// Reports progress of the worker, for [`Liveness::Progress`](crate::Liveness::Progress).
    pub fn tick(&self) {
        self.lease.tick();
    }

    /// Allows one act that takes up to `need`, if it ends before the deadline. Reads the clock itself.
    pub fn permit(&self, need: Duration) -> Result<Permit<'_>, PermitError> {
        if broken(Break::PermitByTimer) && self.lease.states().borrow().is_exclusive() {
            let soon = self.lease.clock.now() + self.lease.ttl().as_duration() / 6;
            return Ok(self.lease.count_permit(self.lease.deadline().max(Deadline::at(soon))));
        }
        self.lease.permit(need)
    }

    /// Waits for the end of the lease.
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + 'static {
        let lease = self.lease.clone();
        async move { wait_until(&lease, |state| state.lost(), |_| None).await }
    }

    /// Waits until work should end: when the lease is handed over, suspended or lost, and a sixth of the TTL before a
    /// deadline that no renewal has moved.
    pub fn stopping(&self) -> impl Future<Output = ()> + Send + 'static {
        let lease = self.lease.clone();
        async move {
            wait_until(
                &lease,
                |state| should_stop(&lease, state).then_some(()),
                |lease| Some(lease.stop_work_at()),
            )
            .await
        }
    }

    /// Whether work should end.
    pub fn is_stopping(&self) -> bool {
        should_stop(&self.lease, self.lease.state())
    }
}

fn should_stop(lease: &HeldLease, state: GuardState) -> bool {
    !state.is_exclusive() || lease.draining() || lease.clock.now() >= lease.stop_work_at()
}

/// Waits until `done` returns a value, checking at every change of the state and at the tick that `at` returns.
async fn wait_until<T>(
    lease: &HeldLease,
    done: impl Fn(GuardState) -> Option<T>,
    at: impl Fn(&HeldLease) -> Option<Tick>,
) -> T {
    let mut states = lease.states();
    loop {
        states.borrow_and_update();
        if let Some(value) = done(lease.state()) {
            return value;
        }
        // `changed` cannot fail: the lease, which owns the sender, is borrowed here.
        match at(lease) {
            Some(tick) => tokio::select! {
                biased;
                _ = states.changed() => {}
                () = lease.clock.sleep_until(tick) => {}
            },
            None => drop(states.changed().await),
        }
    }
}

impl fmt::Debug for LeaseHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lease.fmt(f)
    }
}

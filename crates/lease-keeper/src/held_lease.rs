//! The state of one lease, shared by its guard, its handles and the renewer.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Clock, Deadline, Lease, Renewal, Tick, Token, Ttl};
use tokio::sync::{Notify, watch};

use crate::entropy::Jitter;
use crate::permit::{Permit, PermitError};
use crate::reign::{Attempt, Confirmation, ReignState};
use crate::{GuardState, Lost, telemetry};

/// One lease of this process. The reign is behind a lock that is never held across an await. The state is published under
/// that lock, so that watchers see transitions in order.
pub(crate) struct HeldLease {
    pub(crate) lease: Lease,
    pub(crate) token: Token,
    pub(crate) clock: Arc<dyn Clock>,
    reign: Mutex<ReignState>,
    /// Written under the lock of the reign.
    published: watch::Sender<GuardState>,
    /// Notified when the last permit was dropped.
    no_permits: Notify,
}

impl HeldLease {
    pub(crate) fn new(lease: Lease, token: Token, clock: Arc<dyn Clock>, reign: ReignState) -> Arc<Self> {
        telemetry::acquired(&lease);
        Arc::new(Self {
            lease,
            token,
            clock,
            reign: Mutex::new(reign),
            published: watch::channel(GuardState::Held).0,
            no_permits: Notify::new(),
        })
    }

    /// Gives a permit and counts it, in one step with the check, so that none is given after a release has begun.
    pub(crate) fn permit(&self, need: Duration) -> Result<Permit<'_>, PermitError> {
        let now = self.clock.now();
        let mut given = Err(PermitError::Suspended);
        self.change(|reign| {
            given = reign.permit(need, now);
            reign.settle(now)
        });
        let deadline = given?;
        telemetry::permitted(deadline.left(now));
        Ok(Permit::new(self, deadline))
    }

    /// Counts a permit that was given without a check.
    pub(crate) fn count_permit(&self, deadline: Deadline) -> Permit<'_> {
        self.reign.lock().permits().add(deadline);
        Permit::new(self, deadline)
    }

    /// Forgets a permit that was dropped.
    pub(crate) fn end_permit(&self) {
        let none_left = self.reign.lock().permits().remove();
        if none_left {
            self.no_permits.notify_waiters();
        }
    }

    /// Whether a permit is alive: neither dropped nor past its deadline.
    pub(crate) fn has_permits(&self) -> bool {
        self.live_permits_until().is_some()
    }

    /// Waits until no permit is alive. The caller has stopped giving new ones.
    pub(crate) async fn permits_ended(&self) {
        loop {
            let mut dropped = pin!(self.no_permits.notified());
            // From here on no notification is missed.
            dropped.as_mut().enable();
            let Some(until) = self.live_permits_until() else { return };
            if broken(Break::ReleasesUnderPermits) {
                return;
            }
            tokio::select! {
                biased;
                () = dropped => {}
                () = self.clock.sleep_until(until.tick()) => {}
            }
        }
    }

    fn live_permits_until(&self) -> Option<Deadline> {
        let now = self.clock.now();
        self.reign.lock().permits().until().filter(|until| !until.passed(now))
    }

    /// The state at this moment.
    pub(crate) fn state(&self) -> GuardState {
        let now = self.clock.now();
        self.change(|reign| reign.settle(now))
    }

    pub(crate) fn deadline(&self) -> Deadline {
        self.reign.lock().deadline()
    }

    pub(crate) fn ttl(&self) -> Ttl {
        self.reign.lock().ttl()
    }

    pub(crate) fn stop_work_at(&self) -> Tick {
        self.reign.lock().stop_work_at()
    }

    pub(crate) fn draining(&self) -> bool {
        self.reign.lock().draining()
    }

    /// Refuses permits from now on, or allows them again.
    pub(crate) fn drain(&self, on: bool) {
        self.reign.lock().drain(on);
        // Wakes callers of `stopping`.
        self.published.send_modify(|_| ());
    }

    pub(crate) fn tick(&self) {
        let now = self.clock.now();
        self.reign.lock().tick(now);
    }

    pub(crate) fn states(&self) -> watch::Receiver<GuardState> {
        self.published.subscribe()
    }

    /// Ends the reign; the first reason counts, and is returned.
    pub(crate) fn lose(&self, lost: Lost) -> Lost {
        let now = self.clock.now();
        self.change(|reign| reign.lose(lost, now)).lost().unwrap_or(lost)
    }

    /// Applies the passage of time, and starts a renewal if one is due.
    pub(crate) fn review(&self, now: Tick, window: Duration, jitter: Jitter) -> Option<Attempt> {
        let mut attempt = None;
        self.change(|reign| {
            reign.expire_attempt(now, jitter);
            if reign.settle(now).lost().is_none() && reign.is_renewal_due(now, window) {
                attempt = Some(reign.begin(now));
            }
            reign.settle(now)
        });
        attempt
    }

    pub(crate) fn renewed(&self, number: u64, confirmation: Confirmation, jitter: Jitter) {
        let now = self.clock.now();
        self.change(|reign| reign.renewed(number, confirmation, now, jitter));
        telemetry::renewed(&self.lease);
    }

    pub(crate) fn failed(&self, number: u64, jitter: Jitter) {
        let now = self.clock.now();
        self.change(|reign| reign.failed(number, now, jitter));
    }

    pub(crate) fn wake(&self, now: Tick) -> Option<Tick> {
        self.reign.lock().wake(now)
    }

    /// Whether it must not share renewal calls: for a fail-closed lease one renewal is one call.
    pub(crate) fn renews_alone(&self) -> bool {
        self.reign.lock().renews_alone()
    }

    pub(crate) fn renewal(&self) -> Renewal {
        Renewal {
            key: self.lease.key.clone(),
            token: self.token.clone(),
            generation: self.lease.generation,
            ttl: None,
        }
    }

    fn change(&self, act: impl FnOnce(&mut ReignState) -> GuardState) -> GuardState {
        let mut reign = self.reign.lock();
        let suspended_from = reign.deadline().tick();
        let state = act(&mut reign);
        // Written only on a change: a caller that holds a borrow of the channel while reading the state must not
        // deadlock otherwise.
        let before = *self.published.borrow();
        if before != state {
            self.published.send_replace(state);
        }
        drop(reign);
        if before != state {
            telemetry::state_changed(&self.lease, before, state);
        }
        if before == GuardState::Suspended && state != before {
            telemetry::suspended_for(self.clock.now().since(suspended_from));
        }
        state
    }
}

/// Keeps the gauge right for a lease that was dropped without an end.
impl Drop for HeldLease {
    fn drop(&mut self) {
        if self.published.borrow().lost().is_none() {
            telemetry::dropped();
        }
    }
}

impl fmt::Debug for HeldLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldLease")
            .field("lease", &self.lease)
            .field("state", &*self.published.borrow())
            .finish_non_exhaustive()
    }
}

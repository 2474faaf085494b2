//! What a guard, its handles and the renewer share of one lease.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Deadline, Lease, Renewal, Tick, Token, Ttl};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::entropy::Jitter;
use crate::reign::{Attempt, Reign};
use crate::{Lost, State, telemetry};

/// One lease of this process. The reign is behind a lock that is never held across an await, and the state
/// is published under it, so that watchers see transitions in their order.
pub(crate) struct Core {
    pub(crate) lease: Lease,
    pub(crate) token: Token,
    pub(crate) clock: Arc<dyn Clock>,
    reign: Mutex<Reign>,
    /// Written under the lock of the reign, so that it needs no other order.
    published: watch::Sender<State>,
}

impl Core {
    pub(crate) fn new(lease: Lease, token: Token, clock: Arc<dyn Clock>, reign: Reign) -> Arc<Self> {
        telemetry::acquired(&lease);
        Arc::new(Self {
            lease,
            token,
            clock,
            reign: Mutex::new(reign),
            published: watch::channel(State::Held).0,
        })
    }

    /// The state now, by the clock.
    pub(crate) fn state(&self) -> State {
        let now = self.clock.now();
        self.change(|reign| reign.settle(now))
    }

    pub(crate) fn deadline(&self) -> Deadline {
        self.reign.lock().deadline()
    }

    pub(crate) fn ttl(&self) -> Ttl {
        self.reign.lock().ttl()
    }

    pub(crate) fn last_call(&self) -> Tick {
        self.reign.lock().last_call()
    }

    pub(crate) fn draining(&self) -> bool {
        self.reign.lock().draining()
    }

    /// Refuses permits from now on, or allows them again.
    pub(crate) fn drain(&self, on: bool) {
        self.reign.lock().drain(on);
        // Whoever waits to be told to stop looks again.
        self.published.send_modify(|_| ());
    }

    pub(crate) fn tick(&self) {
        let now = self.clock.now();
        self.reign.lock().tick(now);
    }

    pub(crate) fn states(&self) -> watch::Receiver<State> {
        self.published.subscribe()
    }

    /// Ends the reign; the first reason counts, and is returned.
    pub(crate) fn lose(&self, lost: Lost) -> Lost {
        let now = self.clock.now();
        self.change(|reign| reign.lose(lost, now)).lost().unwrap_or(lost)
    }

    /// What time has done, and whether a renewal should leave now.
    pub(crate) fn review(&self, now: Tick, window: Duration, jitter: Jitter) -> Option<Attempt> {
        let mut attempt = None;
        self.change(|reign| {
            reign.give_up(now, jitter);
            if reign.settle(now).lost().is_none() && reign.wants_renewal(now, window) {
                attempt = Some(reign.begin(now));
            }
            reign.settle(now)
        });
        attempt
    }

    pub(crate) fn renewed(&self, number: u64, sent: Tick, remaining: Duration, jitter: Jitter) {
        let now = self.clock.now();
        self.change(|reign| reign.renewed(number, sent, remaining, now, jitter));
        telemetry::renewed(&self.lease);
    }

    pub(crate) fn failed(&self, number: u64, jitter: Jitter) {
        let now = self.clock.now();
        self.change(|reign| reign.failed(number, now, jitter));
    }

    pub(crate) fn wake(&self, now: Tick) -> Option<Tick> {
        self.reign.lock().wake(now)
    }

    /// Whether its renewals share no call with others: one renewal is one call for a fail-closed lease.
    pub(crate) fn alone(&self) -> bool {
        self.reign.lock().alone()
    }

    pub(crate) fn renewal(&self) -> Renewal {
        Renewal {
            key: self.lease.key.clone(),
            token: self.token.clone(),
            generation: self.lease.generation,
            ttl: None,
        }
    }

    fn change(&self, act: impl FnOnce(&mut Reign) -> State) -> State {
        let mut reign = self.reign.lock();
        let suspended_from = reign.deadline().tick();
        let state = act(&mut reign);
        // Looked at before it is written: whoever keeps a borrow of the channel while asking for the state
        // waits only at a real change.
        let before = *self.published.borrow();
        if before != state {
            self.published.send_replace(state);
        }
        drop(reign);
        if before != state {
            telemetry::moved(&self.lease, before, state);
        }
        if before == State::Suspended && state != before {
            telemetry::suspended_for(self.clock.now().since(suspended_from));
        }
        state
    }
}

/// A lease that nobody ended any more leaves the gauge right.
impl Drop for Core {
    fn drop(&mut self) {
        if self.published.borrow().lost().is_none() {
            telemetry::forgotten();
        }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("lease", &self.lease)
            .field("state", &*self.published.borrow())
            .finish_non_exhaustive()
    }
}

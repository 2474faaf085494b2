//! The handle of a lease that acts under it but does not own it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use lease::breaks::{Break, broken};
use lease::{Deadline, Generation, Holder, Key, Lease, Tick};
use tokio::sync::watch;

use crate::core::Core;
use crate::permit::{NotSafe, Permit};
use crate::{Lost, State, telemetry};

/// A lease as workers see it: permits, states, the time left. The [`Guard`](crate::Guard) that it belongs to
/// decides when the lease ends; after that every permit is refused.
pub struct Held {
    core: Arc<Core>,
}

impl Held {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Another handle of the same lease, for another worker.
    pub fn share(&self) -> Self {
        Self { core: self.core.clone() }
    }

    /// The key owned.
    pub fn key(&self) -> &Key {
        &self.core.lease.key
    }

    /// The fencing number of this reign.
    pub fn generation(&self) -> Generation {
        self.core.lease.generation
    }

    /// Who owns it.
    pub fn holder(&self) -> &Holder {
        &self.core.lease.holder
    }

    /// What was granted.
    pub fn lease(&self) -> &Lease {
        &self.core.lease
    }

    /// The state now, computed from the clock at this call.
    pub fn state(&self) -> State {
        self.core.state()
    }

    /// The states as they come. The value is as of the last look of the keeper; ask [`Held::state`] for now.
    pub fn states(&self) -> watch::Receiver<State> {
        self.core.states()
    }

    /// The instant after which nothing exclusive may happen, unless a renewal moves it.
    pub fn deadline(&self) -> Deadline {
        self.core.deadline()
    }

    /// Tells the keeper that the worker makes progress.
    pub fn tick(&self) {
        self.core.tick();
    }

    /// Allows one act that takes up to `need`, if it ends before the deadline. Reads the clock itself.
    pub fn permit(&self, need: Duration) -> Result<Permit<'_>, NotSafe> {
        let now = self.core.clock.now();
        if broken(Break::PermitByTimer) && self.core.states().borrow().is_exclusive() {
            let deadline = self.core.deadline().max(Deadline::at(now + self.core.ttl().as_duration() / 6));
            return Ok(Permit::new(&self.core, deadline));
        }
        let state = self.core.state();
        match state {
            State::Lost(lost) => return Err(NotSafe::Lost(lost)),
            State::Suspended => return Err(NotSafe::Suspended),
            State::Held | State::Jeopardy if self.core.draining() && !broken(Break::PermitWhileMoving) => {
                return Err(NotSafe::Draining);
            }
            State::Held | State::Jeopardy => {}
        }
        let deadline = self.core.deadline();
        let left = deadline.left(now);
        if left.is_zero() || need > left {
            return Err(NotSafe::TooLate { left });
        }
        telemetry::permitted(left);
        Ok(Permit::new(&self.core, deadline))
    }

    /// Waits for the end of the lease.
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + 'static {
        let core = self.core.clone();
        async move { wait(&core, |state| state.lost(), |_| None).await }
    }

    /// Waits until work should come to an end: the lease is being handed over, or is suspended or lost, or a
    /// sixth of the TTL before a deadline that nothing has moved.
    pub fn stopping(&self) -> impl Future<Output = ()> + Send + 'static {
        let core = self.core.clone();
        async move {
            wait(&core, |state| should_stop(&core, state).then_some(()), |core| Some(core.last_call())).await
        }
    }

    /// Whether work should come to an end.
    pub fn is_stopping(&self) -> bool {
        should_stop(&self.core, self.core.state())
    }
}

fn should_stop(core: &Core, state: State) -> bool {
    !state.is_exclusive() || core.draining() || core.clock.now() >= core.last_call()
}

/// Waits until `done` finds something in the state, looking at every change and at the tick `at` names.
async fn wait<T>(core: &Core, done: impl Fn(State) -> Option<T>, at: impl Fn(&Core) -> Option<Tick>) -> T {
    let mut states = core.states();
    loop {
        states.borrow_and_update();
        if let Some(found) = done(core.state()) {
            return found;
        }
        // The core is borrowed here, so its sender is there and `changed` cannot fail.
        match at(core) {
            Some(tick) => tokio::select! {
                biased;
                _ = states.changed() => {}
                () = core.clock.sleep_until(tick) => {}
            },
            None => drop(states.changed().await),
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.core.fmt(f)
    }
}

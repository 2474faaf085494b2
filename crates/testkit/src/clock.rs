//! Real time: what bounds a wait for another process cannot be simulated. The only file that reads a clock.

use std::time::{Duration, Instant};

/// A point in real time by which something outside this process must have happened.
#[derive(Clone, Copy)]
pub(crate) struct WaitLimit(Instant);

impl WaitLimit {
    pub(crate) fn after(limit: Duration) -> Self {
        Self(now() + limit)
    }

    /// The time left, or nothing once the deadline has passed.
    pub(crate) fn remaining(self) -> Option<Duration> {
        self.0.checked_duration_since(now()).filter(|left| !left.is_zero())
    }
}

#[expect(clippy::disallowed_methods, reason = "the clock is where time is read")]
fn now() -> Instant {
    Instant::now()
}

/// Now, on the clock of the proxy's own runtime.
#[expect(clippy::disallowed_methods, reason = "the clock is where time is read")]
pub(crate) fn runtime_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

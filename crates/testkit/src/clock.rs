//! Real time, for the timeouts of other processes, which cannot be simulated. The only file that reads a clock.

use std::time::{Duration, Instant};

/// The deadline of a wait for another process.
#[derive(Clone, Copy)]
pub(crate) struct WaitLimit(Instant);

impl WaitLimit {
    pub(crate) fn after(limit: Duration) -> Self {
        Self(now() + limit)
    }

    /// The remaining time; `None` after the deadline.
    pub(crate) fn remaining(self) -> Option<Duration> {
        self.0.checked_duration_since(now()).filter(|left| !left.is_zero())
    }
}

#[expect(clippy::disallowed_methods, reason = "the clock is where time is read")]
fn now() -> Instant {
    Instant::now()
}

/// The current time on the runtime of the proxy.
#[expect(clippy::disallowed_methods, reason = "the clock is where time is read")]
pub(crate) fn runtime_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// Waits on the runtime of the proxy.
#[expect(
    clippy::disallowed_methods,
    reason = "delays packets between other processes, which no simulated clock moves"
)]
pub(crate) async fn wait_until(at: tokio::time::Instant) {
    tokio::time::sleep_until(at).await;
}

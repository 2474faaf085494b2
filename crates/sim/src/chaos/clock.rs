//! The machine's clock, and waiting on it outside of any runtime.

use std::time::Duration;

use tenure_lease::{Clock, Tick};
use tenure_store::BootClock;

/// Now.
pub(super) fn now() -> Tick {
    BootClock.now()
}

/// Sleeps in a thread that has nothing else to do.
#[expect(clippy::disallowed_methods, reason = "the thread that follows the plan runs no executor")]
pub(super) fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// Sleeps until then.
pub(super) fn sleep_until(at: Tick) {
    sleep(at.since(now()));
}

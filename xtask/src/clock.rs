//! The clock of the developer commands: durations of steps, and short pauses between attempts.
use std::time::{Duration, Instant};

/// The start of a measurement.
#[expect(clippy::disallowed_methods, reason = "measures steps for people; no ownership depends on it")]
pub(crate) fn start() -> Instant {
    Instant::now()
}

/// Blocks this thread; xtask has no executor.
#[expect(clippy::disallowed_methods, reason = "xtask is synchronous")]
pub(crate) fn pause(length: Duration) {
    std::thread::sleep(length);
}

/// The modification time for touched files.
#[expect(clippy::disallowed_methods, reason = "file times are wall times")]
pub(crate) fn wall() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

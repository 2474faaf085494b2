//! The only file of this crate that reads a real clock: for progress, budgets and fresh seeds, never for a run.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The start of a measurement.
#[expect(clippy::disallowed_methods, reason = "the clock is where time is read")]
pub fn start() -> Instant {
    Instant::now()
}

/// A seed that no run before had.
#[expect(clippy::disallowed_methods, reason = "the clock is where time is read")]
pub fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Room for ranges of seeds that do not touch.
    (since.as_secs() & 0xffff_ffff) << 24
}

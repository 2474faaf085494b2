//! The only file of this crate that reads a clock or sleeps.

use std::time::Duration;

use service::Clock;
use session::UnixMs;

/// Now, as records have it.
pub(crate) fn wall(clock: &Clock) -> UnixMs {
    UnixMs(u64::try_from(clock.wall().as_millis()).unwrap_or(u64::MAX))
}

/// The output of `work`, or nothing if it took longer than `limit`.
#[expect(clippy::disallowed_methods, reason = "a bound on an answer; a suspend may lengthen it without harm")]
pub(crate) async fn within<F: Future>(limit: Duration, work: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = work => Some(output),
        () = tokio::time::sleep(limit) => None,
    }
}

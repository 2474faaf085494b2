//! The only file of this crate that reads a clock or sleeps.

use std::time::Duration;

use tenure_service::Clock;
use tenure_session::UnixMs;

/// The wall clock time for records.
pub(crate) fn wall(clock: &Clock) -> UnixMs {
    UnixMs(u64::try_from(clock.wall().as_millis()).unwrap_or(u64::MAX))
}

/// The output of `work`, or `None` if it takes longer than `limit`.
#[expect(clippy::disallowed_methods, reason = "a timeout that a suspend may extend without harm")]
pub(crate) async fn within<F: Future>(limit: Duration, work: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = work => Some(output),
        () = tokio::time::sleep(limit) => None,
    }
}

//! What is counted. No secret is in any of it.

use std::time::Duration;

/// The target of every line of a meeting controller.
pub(crate) const TARGET: &str = "tenure::meet";

/// A write was refused because somebody else owns the meeting.
pub(crate) fn fenced_out(reason: &'static str) {
    metrics::counter!("mc_fenced_out_total", "reason" => reason).increment(1);
}

/// The store answered, or did not, after so long.
pub(crate) fn asked(took: Duration) {
    metrics::histogram!("mc_redis_latency_seconds").record(took.as_secs_f64());
}

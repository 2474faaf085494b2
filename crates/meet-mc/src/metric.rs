//! What is counted. No secret is in any of it.

use std::time::Duration;

use crate::actor::{ActorType, Level};

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

/// So many mails wait.
pub(crate) fn mailbox(kind: ActorType, depth: usize) {
    metrics::gauge!("mc_actor_mailbox_depth", "actor_type" => kind.as_str()).set(depth as f64);
    let level = kind.level(depth);
    // Said where it begins, not for every mail.
    if level > Level::Normal && kind.level(depth - 1) < level {
        tracing::warn!(target: TARGET, actor_type = kind.as_str(), depth, ?level, "a mailbox fills up");
    }
}

/// An actor panicked, which is a bug.
pub(crate) fn panicked(kind: ActorType, said: &str) {
    metrics::counter!("mc_actor_panic_total", "actor_type" => kind.as_str()).increment(1);
    tracing::error!(target: TARGET, actor_type = kind.as_str(), said, "an actor panicked");
}

/// A mail or a deadline was dealt with.
pub(crate) fn handled(took: Duration) {
    metrics::histogram!("mc_message_latency_seconds").record(took.as_secs_f64());
}

/// One connection more or less.
pub(crate) fn connections(by: f64) {
    metrics::gauge!("mc_connections_active").increment(by);
}

/// So many meetings are owned.
pub(crate) fn meetings(count: usize) {
    metrics::gauge!("mc_meetings_active").set(count as f64);
}

/// A join ended like this.
pub(crate) fn joined(status: &'static str) {
    metrics::counter!("mc_session_joins_total", "status" => status).increment(1);
}

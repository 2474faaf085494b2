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

/// A join ended like this, after so long.
pub(crate) fn joined(status: &'static str, took: Duration) {
    metrics::counter!("mc_session_joins_total", "status" => status).increment(1);
    let seconds = took.as_secs_f64();
    metrics::histogram!("mc_session_join_duration_seconds", "status" => status).record(seconds);
    if status != "ok" {
        metrics::counter!("mc_session_join_failures_total", "error_type" => status).increment(1);
    }
}

/// The token of a client was looked at.
pub(crate) fn validated(token_type: &'static str, failure: Option<&'static str>) {
    let result = if failure.is_none() { "success" } else { "failure" };
    let labels =
        [("result", result), ("token_type", token_type), ("failure_reason", failure.unwrap_or("none"))];
    metrics::counter!("mc_jwt_validations_total", &labels).increment(1);
}

/// Somebody showed the proof of a seat and got that seat, or a new one.
pub(crate) fn resumed(status: &'static str) {
    metrics::counter!("mc_session_resumes_total", "status" => status).increment(1);
}

/// Somebody is back after so long.
pub(crate) fn recovered(took: Duration) {
    metrics::histogram!("mc_recovery_duration_seconds").record(took.as_secs_f64());
}

/// A client asked for a session, with this outcome.
pub(crate) fn connected(status: &'static str) {
    metrics::counter!("mc_webtransport_connections_total", "status" => status).increment(1);
}

/// A mail was not taken any more.
pub(crate) fn dropped(kind: ActorType) {
    metrics::counter!("mc_messages_dropped_total", "actor_type" => kind.as_str()).increment(1);
}

/// A media handler was told of a meeting, with this outcome, after so long.
pub(crate) fn registered(status: &'static str, took: Duration) {
    metrics::counter!("mc_register_meeting_total", "status" => status).increment(1);
    metrics::histogram!("mc_register_meeting_duration_seconds").record(took.as_secs_f64());
}

/// A media handler said something.
pub(crate) fn notified(event_type: &'static str) {
    metrics::counter!("mc_mh_notifications_received_total", "event_type" => event_type).increment(1);
}

/// GC asked for a meeting to be taken, with this outcome.
pub(crate) fn assigned(status: &'static str) {
    metrics::counter!("mc_assignments_total", "status" => status).increment(1);
}

/// So much of the store's breaker is open: none or all.
pub(crate) fn breaker(open: bool) {
    metrics::gauge!("mc_store_breaker_open").set(f64::from(u8::from(open)));
}

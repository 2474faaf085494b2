//! Metrics of a controller. No metric carries a secret.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tenure_meet_rpc::history::MoveResult;

use crate::actor::{ActorType, Level};

/// The log target.
pub(crate) const TARGET: &str = "tenure::meet";

/// A write was fenced: another controller owns the meeting.
pub(crate) fn fenced_out(reason: &'static str) {
    metrics::counter!("mc_fenced_out_total", "reason" => reason).increment(1);
}

/// A stored row was not readable.
pub(crate) fn row_skipped() {
    metrics::counter!("mc_rows_skipped_total").increment(1);
}

/// A call to the store ended.
pub(crate) fn store_called(took: Duration) {
    metrics::histogram!("mc_redis_latency_seconds").record(took.as_secs_f64());
}

/// The greatest depth of a mailbox of each type since it was last published.
static PEAKS: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

/// A message was sent to a mailbox, which has this depth now.
pub(crate) fn mailbox_reached(kind: ActorType, depth: usize) {
    PEAKS[kind as usize].fetch_max(depth, Ordering::Relaxed);
    let level = kind.level(depth);
    // Logged when the level is reached, not for every message.
    if level > Level::Normal && kind.level(depth - 1) < level {
        tracing::warn!(target: TARGET, actor_type = kind.as_str(), depth, ?level, "mailbox is filling up");
    }
}

/// Publishes the greatest depth of the mailboxes of each type: what was reached since the last call, or `current` if no
/// message could be sent since.
pub(crate) fn mailboxes(current: impl Fn(ActorType) -> usize) {
    for kind in ActorType::ALL {
        let depth = PEAKS[kind as usize].swap(0, Ordering::Relaxed).max(current(kind));
        metrics::gauge!("mc_actor_mailbox_depth", "actor_type" => kind.as_str()).set(depth as f64);
    }
}

/// An actor panicked.
pub(crate) fn panicked(kind: ActorType, message: &str) {
    metrics::counter!("mc_actor_panic_total", "actor_type" => kind.as_str()).increment(1);
    tracing::error!(target: TARGET, actor_type = kind.as_str(), message, "actor panicked");
}

/// A message or a timer was processed.
pub(crate) fn handled(took: Duration) {
    metrics::histogram!("mc_message_latency_seconds").record(took.as_secs_f64());
}

/// A connection was opened or closed.
pub(crate) fn connections(by: f64) {
    metrics::gauge!("mc_connections_active").increment(by);
}

/// The number of running meetings.
pub(crate) fn meetings(count: usize) {
    metrics::gauge!("mc_meetings_active").set(count as f64);
}

/// The outcome of a join.
pub(crate) fn joined(status: &'static str, took: Duration) {
    metrics::counter!("mc_session_joins_total", "status" => status).increment(1);
    let seconds = took.as_secs_f64();
    metrics::histogram!("mc_session_join_duration_seconds", "status" => status).record(seconds);
    if status != "ok" {
        metrics::counter!("mc_session_join_failures_total", "error_type" => status).increment(1);
    }
}

/// A client's token was verified.
pub(crate) fn validated(token_type: &'static str, failure: Option<&'static str>) {
    let result = if failure.is_none() { "success" } else { "failure" };
    let labels =
        [("result", result), ("token_type", token_type), ("failure_reason", failure.unwrap_or("none"))];
    metrics::counter!("mc_jwt_validations_total", &labels).increment(1);
}

/// A resume ended with the same seat or a new one.
pub(crate) fn resumed(status: &'static str) {
    metrics::counter!("mc_session_resumes_total", "status" => status).increment(1);
}

/// How long a resumed participant was disconnected.
pub(crate) fn recovered(took: Duration) {
    metrics::histogram!("mc_recovery_duration_seconds").record(took.as_secs_f64());
}

/// The outcome of a session request.
pub(crate) fn connected(status: &'static str) {
    metrics::counter!("mc_webtransport_connections_total", "status" => status).increment(1);
}

/// A message was dropped because a mailbox was full.
pub(crate) fn dropped(kind: ActorType) {
    metrics::counter!("mc_messages_dropped_total", "actor_type" => kind.as_str()).increment(1);
}

/// The outcome of a registration at a media handler.
pub(crate) fn registered(status: &'static str, took: Duration) {
    metrics::counter!("mc_register_meeting_total", "status" => status).increment(1);
    metrics::histogram!("mc_register_meeting_duration_seconds").record(took.as_secs_f64());
}

/// A notification of a media handler.
pub(crate) fn notified(event_type: &'static str) {
    metrics::counter!("mc_mh_notifications_received_total", "event_type" => event_type).increment(1);
}

/// A meeting moved to another controller, or an attempt to move it ended. `freeze` is how long it accepted no changes.
pub(crate) fn migrated(result: MoveResult, reason: &'static str, freeze: Option<Duration>) {
    let result = match result {
        MoveResult::Completed => "completed",
        MoveResult::Aborted => "aborted",
        MoveResult::Failed => "failed",
    };
    metrics::counter!("mc_migrations_total", "result" => result, "reason" => reason).increment(1);
    if let Some(freeze) = freeze {
        metrics::histogram!("mc_migration_freeze_seconds").record(freeze.as_secs_f64());
    }
}

/// The outcome of an assignment.
pub(crate) fn assigned(status: &'static str) {
    metrics::counter!("mc_assignments_total", "status" => status).increment(1);
}

/// Whether the store's circuit breaker is open.
pub(crate) fn breaker(open: bool) {
    metrics::gauge!("mc_store_breaker_open").set(f64::from(u8::from(open)));
}

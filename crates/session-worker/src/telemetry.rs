//! Metrics and logs of sessions. Neither contains secrets.

use std::time::Duration;

use tenure_session::{Detail, Reason, Session, SessionState};

/// The log target of sessions.
pub(crate) const TARGET: &str = "tenure::sessions";

/// Counts and logs a state transition.
pub(crate) fn record_transition(session: &Session, from: SessionState) {
    let (to, profile) = (session.state, session.profile.to_string());
    metrics::counter!("v3_fsm_transitions_total", "state_from" => from.as_str(), "state_to" => to.as_str())
        .increment(1);
    tracing::info!(
        target: TARGET,
        session = %session.id,
        %from,
        %to,
        slot = session.slot,
        reason = session.reason.as_str(),
        detail = session.detail.map(Detail::as_str),
        correlation = %session.correlation,
        "session state changed"
    );
    if to == SessionState::Ready {
        started("ready", "none", profile);
    } else if to.is_terminal() {
        let reason = session.reason.as_str();
        metrics::counter!("xg2g_v3_session_end_total", "reason" => reason, "profile" => profile.clone())
            .increment(1);
        if !matches!(from, SessionState::Ready | SessionState::Draining) && session.published.is_none() {
            started("failed", class(session.reason), profile);
        }
    }
}

fn started(result: &'static str, class: &'static str, profile: String) {
    let labels = [("result", result.to_owned()), ("reason_class", class.to_owned()), ("profile", profile)];
    metrics::counter!("xg2g_v3_session_starts_total", &labels).increment(1);
}

const fn class(reason: Reason) -> &'static str {
    match reason {
        Reason::None => "none",
        Reason::LeaseBusy => "busy",
        Reason::ClientStop | Reason::Cancelled | Reason::IdleTimeout => "stopped",
        Reason::LeaseExpired => "lease",
        Reason::TuneTimeout | Reason::TuneFailed | Reason::UpstreamCorrupt | Reason::NotFound => "upstream",
        Reason::BadRequest => "request",
        Reason::PipelineStartFailed | Reason::ProcessEnded | Reason::PackagerFailed => "pipeline",
        Reason::Unknown | Reason::InvariantViolation => "unknown",
    }
}

/// Counts a session rejected for lack of capacity.
pub(crate) fn rejected(session: &Session, detail: Detail) {
    if detail == Detail::RejectedNoTuner {
        metrics::counter!("xg2g_v3_tuner_busy_total").increment(1);
    }
    let labels = [("reason", detail.as_str().to_owned()), ("profile", session.profile.to_string())];
    metrics::counter!("xg2g_v3_capacity_rejections_total", &labels).increment(1);
}

pub(crate) fn lease_lost() {
    metrics::counter!("v3_worker_lease_lost_total").increment(1);
}

/// Counts a session stopped for lack of viewers.
pub(crate) fn expired(state: SessionState) {
    metrics::counter!("xg2g_sessions_lease_expired_total", "previous_state" => state.as_str()).increment(1);
}

pub(crate) fn first_playlist(session: &Session, took: Duration) {
    let profile = session.profile.to_string();
    metrics::histogram!("xg2g_v3_time_to_first_playlist_seconds", "profile" => profile)
        .record(took.as_secs_f64());
}

pub(crate) fn tuners_in_use(count: usize) {
    metrics::gauge!("xg2g_tuners_in_use").set(count as f64);
}

pub(crate) fn sessions_active(count: usize) {
    metrics::gauge!("xg2g_v3_sessions_active").set(count as f64);
}

pub(crate) fn violated(rule: &'static str) {
    metrics::counter!("xg2g_invariant_violation_total", "rule" => rule).increment(1);
}

/// Registers the counters of failures, so that they are exported as zero.
pub(crate) fn init_counters() {
    for rule in crate::reconcile::Rule::ALL {
        metrics::counter!("xg2g_invariant_violation_total", "rule" => rule.as_str()).increment(0);
    }
    metrics::counter!("xg2g_v3_tuner_busy_total").increment(0);
    metrics::counter!("v3_worker_lease_lost_total").increment(0);
    tuners_in_use(0);
    sessions_active(0);
}

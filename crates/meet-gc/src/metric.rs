//! Metrics.

use tenure_meet_wire::internal::{RejectionReason, UnreachableReason};

use crate::verdict::ProbeResult;

/// Counts a join request.
pub(crate) fn joined(status: &'static str) {
    metrics::counter!("gc_joins_total", "status" => status).increment(1);
}

/// Counts a created meeting.
pub(crate) fn created() {
    metrics::counter!("gc_meetings_created_total").increment(1);
}

/// Counts a request for a guest token.
pub(crate) fn guest(status: &'static str) {
    metrics::counter!("gc_guest_tokens_total", "status" => status).increment(1);
}

/// Counts an assignment by its result: `accepted`, `already_owned`, `no_controller`, `no_handler`, `rejected` or `no_answer`.
pub(crate) fn assigned(result: &'static str) {
    metrics::counter!("gc_assignments_total", "result" => result).increment(1);
}

/// Counts a rejected assignment.
pub(crate) fn rejected(reason: RejectionReason) {
    let reason = match reason {
        RejectionReason::Unspecified => "unspecified",
        RejectionReason::AtCapacity => "at_capacity",
        RejectionReason::Draining => "draining",
        RejectionReason::Unhealthy => "unhealthy",
        RejectionReason::AlreadyOwned => "already_owned",
        RejectionReason::InvalidRequest => "invalid_request",
    };
    metrics::counter!("gc_assignment_rejections_total", "reason" => reason).increment(1);
}

/// Counts a meeting whose handlers share one zone.
pub(crate) fn degraded() {
    metrics::counter!("gc_degraded_placements_total").increment(1);
}

/// Sets the number of registered nodes of a kind.
pub(crate) fn registered(kind: tenure_meet_rpc::Kind, nodes: usize) {
    let kind = match kind {
        tenure_meet_rpc::Kind::Controller => "mc",
        tenure_meet_rpc::Kind::Handler => "mh",
    };
    metrics::gauge!("gc_registered_nodes", "kind" => kind).set(nodes as f64);
}

/// Counts a report of an unreachable controller.
pub(crate) fn unreachable(reason: UnreachableReason) {
    let reason = match reason {
        UnreachableReason::Unspecified => "unspecified",
        UnreachableReason::ConnectionRefused => "connection_refused",
        UnreachableReason::Timeout => "timeout",
        UnreachableReason::TlsError => "tls_error",
    };
    metrics::counter!("gc_unreachable_reports_total", "reason" => reason).increment(1);
}

/// Counts a probe of a reported controller by its result: `alive`, `lost_meeting` or `dead`.
pub(crate) fn probed(result: ProbeResult) {
    let result = match result {
        ProbeResult::Holds => "alive",
        ProbeResult::Lacks => "lost_meeting",
        ProbeResult::Failed => "dead",
    };
    metrics::counter!("gc_mc_probes_total", "result" => result).increment(1);
}

/// Counts a decision that takes a meeting from its controller, by its result: `taken_over`, `failed`, `moved`,
/// `not_moved` or `suppressed`.
pub(crate) fn failed_over(result: &'static str) {
    metrics::counter!("gc_failovers_total", "result" => result).increment(1);
}

/// Counts meetings that a sweep closed or deleted.
pub(crate) fn swept(closed: u64, forgotten: u64) {
    metrics::counter!("gc_meetings_swept_total", "action" => "closed").increment(closed);
    metrics::counter!("gc_meetings_swept_total", "action" => "forgotten").increment(forgotten);
}

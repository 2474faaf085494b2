//! What is counted.

use meet_wire::internal::{RejectionReason, UnreachableReason};

/// Somebody asked to join.
pub(crate) fn joined(status: &'static str) {
    metrics::counter!("gc_joins_total", "status" => status).increment(1);
}

/// A meeting was made.
pub(crate) fn created() {
    metrics::counter!("gc_meetings_created_total").increment(1);
}

/// Somebody asked to be a guest.
pub(crate) fn guest(status: &'static str) {
    metrics::counter!("gc_guest_tokens_total", "status" => status).increment(1);
}

/// What became of an assignment: `accepted`, `already_owned`, `no_controller`, `no_handler`, `rejected` or `no_answer`.
pub(crate) fn assigned(result: &'static str) {
    metrics::counter!("gc_assignments_total", "result" => result).increment(1);
}

/// A controller did not take a meeting.
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

/// A meeting got handlers of one zone only.
pub(crate) fn degraded() {
    metrics::counter!("gc_degraded_placements_total").increment(1);
}

/// So many nodes of a kind are there.
pub(crate) fn registered(kind: meet_rpc::Kind, nodes: usize) {
    let kind = match kind {
        meet_rpc::Kind::Controller => "mc",
        meet_rpc::Kind::Handler => "mh",
    };
    metrics::gauge!("gc_registered_nodes", "kind" => kind).set(nodes as f64);
}

/// Somebody cannot reach a controller.
pub(crate) fn unreachable(reason: UnreachableReason) {
    let reason = match reason {
        UnreachableReason::Unspecified => "unspecified",
        UnreachableReason::ConnectionRefused => "connection_refused",
        UnreachableReason::Timeout => "timeout",
        UnreachableReason::TlsError => "tls_error",
    };
    metrics::counter!("gc_unreachable_reports_total", "reason" => reason).increment(1);
}

/// What a probe of a reported controller found: `alive`, `lost_meeting` or `dead`.
pub(crate) fn probed(result: &'static str) {
    metrics::counter!("gc_mc_probes_total", "result" => result).increment(1);
}

/// Meetings were closed or forgotten by a sweep.
pub(crate) fn swept(closed: u64, forgotten: u64) {
    metrics::counter!("gc_meetings_swept_total", "action" => "closed").increment(closed);
    metrics::counter!("gc_meetings_swept_total", "action" => "forgotten").increment(forgotten);
}

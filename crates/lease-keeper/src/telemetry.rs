//! Log events and metrics about ownership. They never contain a token.

use std::time::Duration;

use tenure_lease::{Key, Lease, Outcome};

use crate::{GuardState, Lost};

/// The target of every ownership event.
const TARGET: &str = "tenure::ownership";

pub(crate) fn acquired(lease: &Lease) {
    metrics::gauge!("tenure_lease_held").increment(1.0);
    tracing::info!(target: TARGET, key = %lease.key, holder = %lease.holder, generation = %lease.generation,
        ttl_ms = lease.ttl.as_millis(), "acquired");
}

pub(crate) fn acquire_finished(result: &'static str, took: Duration) {
    metrics::counter!("tenure_lease_acquire_total", "result" => result).increment(1);
    metrics::histogram!("tenure_lease_acquire_seconds", "outcome" => result).record(took.as_secs_f64());
}

pub(crate) fn renewed(lease: &Lease) {
    tracing::trace!(target: TARGET, key = %lease.key, holder = %lease.holder, generation = %lease.generation,
        "renewed");
}

pub(crate) fn renewals_finished(result: &'static str, leases: usize) {
    metrics::counter!("tenure_lease_renew_total", "result" => result).increment(leases as u64);
}

pub(crate) fn renew_failed(error: &tenure_lease::Error, leases: usize) {
    let result = match error.outcome() {
        Outcome::NotApplied => "failed",
        Outcome::Indeterminate => "unknown",
    };
    renewals_finished(result, leases);
    tracing::warn!(target: TARGET, leases, %error, "renewal failed");
}

pub(crate) fn permitted(margin: Duration) {
    metrics::histogram!("tenure_lease_permit_margin_seconds").record(margin.as_secs_f64());
}

/// A guard changed its state.
pub(crate) fn state_changed(lease: &Lease, from: GuardState, to: GuardState) {
    let (key, holder, generation) = (&lease.key, &lease.holder, lease.generation);
    match to {
        GuardState::Held => tracing::info!(target: TARGET, %key, %holder, %generation, ?from, "held again"),
        GuardState::Jeopardy => {
            metrics::counter!("tenure_lease_jeopardy_total").increment(1);
            tracing::warn!(target: TARGET, %key, %holder, %generation, "jeopardy");
        }
        GuardState::Suspended => {
            metrics::counter!("tenure_lease_suspended_total").increment(1);
            tracing::warn!(target: TARGET, %key, %holder, %generation, "suspended");
        }
        GuardState::Lost(lost) if lost.is_voluntary() => {
            metrics::gauge!("tenure_lease_held").decrement(1.0);
            tracing::info!(target: TARGET, %key, %holder, %generation, how = lost.as_str(), "released");
        }
        GuardState::Lost(lost) => {
            metrics::gauge!("tenure_lease_held").decrement(1.0);
            metrics::counter!("tenure_lease_lost_total", "reason" => lost.as_str()).increment(1);
            tracing::error!(target: TARGET, %key, %holder, %generation, reason = lost.as_str(), "lost");
        }
    }
}

pub(crate) fn suspended_for(time: Duration) {
    metrics::histogram!("tenure_lease_suspended_seconds").record(time.as_secs_f64());
}

/// A lease was dropped without an end.
pub(crate) fn dropped() {
    metrics::gauge!("tenure_lease_held").decrement(1.0);
}

pub(crate) fn release_finished(result: &'static str) {
    metrics::counter!("tenure_lease_release_total", "result" => result).increment(1);
}

pub(crate) fn reaped(key: &Key, result: &'static str) {
    metrics::counter!("tenure_lease_reaped_total", "result" => result).increment(1);
    tracing::debug!(target: TARGET, %key, result, "reaped");
}

pub(crate) fn handed_over(took: Duration, how: &'static str) {
    metrics::histogram!("tenure_lease_handover_seconds", "how" => how).record(took.as_secs_f64());
}

pub(crate) fn slots(name: &str, in_use: usize, offered: usize) {
    metrics::gauge!("tenure_lease_slots_in_use", "name" => name.to_owned()).set(in_use as f64);
    metrics::gauge!("tenure_lease_slots_offered", "name" => name.to_owned()).set(offered as f64);
}

/// A timer fired because no event had arrived.
pub(crate) fn wake_up_missed() {
    metrics::counter!("tenure_lease_missed_wakeups_total").increment(1);
}

pub(crate) fn gate_lost(key: &Key, lost: Lost) {
    tracing::error!(target: TARGET, %key, reason = lost.as_str(), "gate lost, exiting");
}

//! What operators see of ownership: events under one target, and counters. Never a token.

use std::time::Duration;

use lease::{Happened, Key, Lease};

use crate::{Lost, State};

/// The target of every ownership event.
const TARGET: &str = "tenure::ownership";

pub(crate) fn acquired(lease: &Lease) {
    metrics::gauge!("lease_held").increment(1.0);
    tracing::info!(target: TARGET, key = %lease.key, holder = %lease.holder, generation = %lease.generation,
        ttl_ms = lease.ttl.as_millis(), "acquired");
}

pub(crate) fn acquire_answered(result: &'static str, took: Duration) {
    metrics::counter!("lease_acquire_total", "result" => result).increment(1);
    metrics::histogram!("lease_acquire_seconds", "outcome" => result).record(took.as_secs_f64());
}

pub(crate) fn renewed(lease: &Lease) {
    tracing::trace!(target: TARGET, key = %lease.key, holder = %lease.holder, generation = %lease.generation,
        "renewed");
}

pub(crate) fn renew_answered(result: &'static str, leases: usize) {
    metrics::counter!("lease_renew_total", "result" => result).increment(leases as u64);
}

pub(crate) fn renew_failed(error: &lease::Error, leases: usize) {
    let result = match error.happened() {
        Happened::No => "failed",
        Happened::Maybe => "unknown",
    };
    renew_answered(result, leases);
    tracing::warn!(target: TARGET, leases, %error, "renewal failed");
}

pub(crate) fn permitted(margin: Duration) {
    metrics::histogram!("lease_permit_margin_ms").record(margin.as_secs_f64() * 1_000.0);
}

/// A guard went from one state to another.
pub(crate) fn moved(lease: &Lease, from: State, to: State) {
    let (key, holder, generation) = (&lease.key, &lease.holder, lease.generation);
    match to {
        State::Held => tracing::info!(target: TARGET, %key, %holder, %generation, ?from, "held again"),
        State::Jeopardy => {
            metrics::counter!("lease_jeopardy_total").increment(1);
            tracing::warn!(target: TARGET, %key, %holder, %generation, "jeopardy");
        }
        State::Suspended => {
            metrics::counter!("lease_suspended_total").increment(1);
            tracing::warn!(target: TARGET, %key, %holder, %generation, "suspended");
        }
        State::Lost(lost) if lost.is_voluntary() => {
            metrics::gauge!("lease_held").decrement(1.0);
            tracing::info!(target: TARGET, %key, %holder, %generation, how = lost.as_str(), "released");
        }
        State::Lost(lost) => {
            metrics::gauge!("lease_held").decrement(1.0);
            metrics::counter!("lease_lost_total", "reason" => lost.as_str()).increment(1);
            tracing::error!(target: TARGET, %key, %holder, %generation, reason = lost.as_str(), "lost");
        }
    }
}

pub(crate) fn suspended_for(time: Duration) {
    metrics::histogram!("lease_suspended_seconds").record(time.as_secs_f64());
}

/// A lease left the process without a last state.
pub(crate) fn forgotten() {
    metrics::gauge!("lease_held").decrement(1.0);
}

pub(crate) fn release_answered(result: &'static str) {
    metrics::counter!("lease_release_total", "result" => result).increment(1);
}

pub(crate) fn reaped(key: &Key, result: &'static str) {
    metrics::counter!("lease_reaped_total", "result" => result).increment(1);
    tracing::debug!(target: TARGET, %key, result, "reaped");
}

pub(crate) fn handed_over(took: Duration, how: &'static str) {
    metrics::histogram!("lease_handover_ms", "how" => how).record(took.as_secs_f64() * 1_000.0);
}

pub(crate) fn slots(name: &str, in_use: usize, offered: usize) {
    metrics::gauge!("lease_slots_in_use", "name" => name.to_owned()).set(in_use as f64);
    metrics::gauge!("lease_slots_offered", "name" => name.to_owned()).set(offered as f64);
}

/// A timer found what an event should have told.
pub(crate) fn wake_lost() {
    metrics::counter!("lease_wake_lost_total").increment(1);
}

pub(crate) fn gate_lost(key: &Key, lost: Lost) {
    tracing::error!(target: TARGET, %key, reason = lost.as_str(), "the gate is lost: the process ends");
}

//! Log events and metrics of polling. They never contain a secret.

use std::time::Duration;

use tenure_keeper::Observer;
use tenure_lease::{Generation, Lease};

use crate::keys;
use crate::plan::ReleaseReason;

/// The log target of every event.
const TARGET: &str = "tenure::poll";

fn count(event: &'static str, by: u64) {
    metrics::counter!("tenure_poll_lease_events_total", "event" => event).increment(by);
}

/// The subject of a lease event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseEvent<'a> {
    pub(crate) instance: &'a str,
    pub(crate) endpoint: &'a str,
    pub(crate) generation: Option<Generation>,
}

impl LeaseEvent<'_> {
    fn generation(&self) -> u64 {
        self.generation.map_or(0, Generation::get)
    }

    pub(crate) fn acquired(&self) {
        count("acquired", 1);
        metrics::gauge!("tenure_poll_targets_owned").increment(1.0);
        tracing::info!(target: TARGET, instance = self.instance, endpoint = self.endpoint,
            generation = self.generation(), "acquired");
    }

    pub(crate) fn acquire_failed(&self, why: &str) {
        count("acquire_failed", 1);
        tracing::debug!(target: TARGET, instance = self.instance, endpoint = self.endpoint,
            generation = self.generation(), why, "acquire_failed");
    }

    pub(crate) fn uncertain(&self) {
        count("uncertain", 1);
        tracing::warn!(target: TARGET, instance = self.instance, endpoint = self.endpoint,
            generation = self.generation(), "uncertain");
    }

    pub(crate) fn certain(&self) {
        count("certain", 1);
        tracing::info!(target: TARGET, instance = self.instance, endpoint = self.endpoint,
            generation = self.generation(), "certain");
    }

    pub(crate) fn released(&self, reason: ReleaseReason, successor: Option<&str>) {
        count("released", 1);
        tracing::info!(target: TARGET, instance = self.instance, endpoint = self.endpoint,
            generation = self.generation(), reason = reason.as_str(), successor = successor.unwrap_or(""), "released");
    }

    pub(crate) fn expired(&self, how: &str) {
        count("expired", 1);
        tracing::warn!(target: TARGET, instance = self.instance, endpoint = self.endpoint,
            generation = self.generation(), how, "expired");
    }

    pub(crate) fn taken_over(&self, by: &str, their_generation: Option<Generation>) {
        count("taken_over", 1);
        tracing::warn!(target: TARGET, instance = self.instance, endpoint = self.endpoint,
            generation = self.generation(), by, by_generation = their_generation.map_or(0, Generation::get),
            "taken_over");
    }
}

/// A target is no longer owned by this process.
pub(crate) fn target_left() {
    metrics::gauge!("tenure_poll_targets_owned").decrement(1.0);
}

/// Logs and counts the keeper's renewals.
#[derive(Debug)]
pub(crate) struct RenewalObserver;

impl Observer for RenewalObserver {
    fn renewed(&self, lease: &Lease) {
        count("renewed", 1);
        tracing::debug!(target: TARGET, instance = lease.holder.as_str(), endpoint = endpoint(lease),
            generation = lease.generation.get(), "renewed");
    }

    fn failed(&self, lease: &Lease, error: &tenure_lease::Error) {
        count("renew_failed", 1);
        tracing::warn!(target: TARGET, instance = lease.holder.as_str(), endpoint = endpoint(lease),
            generation = lease.generation.get(), %error, "renew_failed");
    }
}

fn endpoint(lease: &Lease) -> &str {
    lease.key.as_str().strip_prefix(keys::LEASE).unwrap_or_default()
}

/// Counts one request by its outcome.
pub(crate) fn record_request(outcome: &'static str, took: Duration) {
    metrics::counter!("tenure_poll_requests_total", "outcome" => outcome).increment(1);
    metrics::histogram!("tenure_poll_request_seconds").record(took.as_secs_f64());
}

/// Counts a request that was due but not sent, for lack of a permit.
pub(crate) fn record_no_permit() {
    metrics::counter!("tenure_poll_skipped_total").increment(1);
}

/// Counts results by outcome.
pub(crate) fn record_results(outcome: &'static str, number: u64) {
    metrics::counter!("tenure_poll_results_total", "outcome" => outcome).increment(number);
}

/// Counts webhook calls by outcome.
pub(crate) fn record_webhook(outcome: &'static str) {
    metrics::counter!("tenure_poll_webhook_calls_total", "outcome" => outcome).increment(1);
}

/// Sets the gauges of known targets and nodes.
pub(crate) fn record_counts(targets: usize, paused: usize, invalid: usize, nodes: usize) {
    metrics::gauge!("tenure_poll_targets").set(targets as f64);
    metrics::gauge!("tenure_poll_targets_paused").set(paused as f64);
    metrics::gauge!("tenure_poll_targets_invalid").set(invalid as f64);
    metrics::gauge!("tenure_poll_nodes").set(nodes as f64);
}

/// A store call failed. The node keeps what it knew.
pub(crate) fn read_failed(what: &'static str, error: &tenure_lease::Error) {
    metrics::counter!("tenure_poll_discovery_errors_total", "what" => what).increment(1);
    tracing::warn!(target: TARGET, what, %error, "store call failed");
}

/// A record is not a valid target.
pub(crate) fn invalid_target(endpoint: &str, why: &str) {
    tracing::warn!(target: TARGET, endpoint, why, "invalid target");
}

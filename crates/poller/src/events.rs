//! What operators see of polling: events under one log target, and counters. Never a secret.

use std::time::Duration;

use lease::{Generation, Lease};
use lease_keeper::Observer;

use crate::keys;
use crate::plan::Why;

/// The target of every event.
const TARGET: &str = "tenure::poll";

fn count(event: &'static str, by: u64) {
    metrics::counter!("poll_lease_events_total", "event" => event).increment(by);
}

/// Who speaks of what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who<'a> {
    pub(crate) instance: &'a str,
    pub(crate) endpoint: &'a str,
    pub(crate) generation: Option<Generation>,
}

impl Who<'_> {
    fn generation(&self) -> u64 {
        self.generation.map_or(0, Generation::get)
    }

    pub(crate) fn acquired(&self) {
        count("acquired", 1);
        metrics::gauge!("poll_targets_owned").increment(1.0);
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

    pub(crate) fn certain_again(&self) {
        count("certain", 1);
        tracing::info!(target: TARGET, instance = self.instance, endpoint = self.endpoint,
            generation = self.generation(), "certain");
    }

    pub(crate) fn released(&self, why: Why, heir: Option<&str>) {
        count("released", 1);
        tracing::info!(target: TARGET, instance = self.instance, endpoint = self.endpoint,
            generation = self.generation(), reason = why.as_str(), heir = heir.unwrap_or(""), "released");
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

/// A lease left this process, however.
pub(crate) fn gone() {
    metrics::gauge!("poll_targets_owned").decrement(1.0);
}

/// Hears of renewals from the keeper.
#[derive(Debug)]
pub(crate) struct Renewals;

impl Observer for Renewals {
    fn renewed(&self, lease: &Lease) {
        count("renewed", 1);
        tracing::debug!(target: TARGET, instance = lease.holder.as_str(), endpoint = endpoint(lease),
            generation = lease.generation.get(), "renewed");
    }

    fn failed(&self, lease: &Lease, error: &lease::Error) {
        count("renew_failed", 1);
        tracing::warn!(target: TARGET, instance = lease.holder.as_str(), endpoint = endpoint(lease),
            generation = lease.generation.get(), %error, "renew_failed");
    }
}

fn endpoint(lease: &Lease) -> &str {
    lease.key.as_str().strip_prefix(keys::LEASE).unwrap_or_default()
}

/// One request was answered, or was not.
pub(crate) fn polled(outcome: &'static str, took: Duration) {
    metrics::counter!("poll_requests_total", "outcome" => outcome).increment(1);
    metrics::histogram!("poll_request_seconds").record(took.as_secs_f64());
}

/// A request that was due was not made: there was no permit.
pub(crate) fn held_back() {
    metrics::counter!("poll_held_back_total").increment(1);
}

/// What became of results.
pub(crate) fn results(outcome: &'static str, number: u64) {
    metrics::counter!("poll_results_total", "outcome" => outcome).increment(number);
}

/// What became of a call of a webhook.
pub(crate) fn webhook(outcome: &'static str) {
    metrics::counter!("poll_webhook_total", "outcome" => outcome).increment(1);
}

/// How much this node knows of.
pub(crate) fn known(targets: usize, paused: usize, invalid: usize, nodes: usize) {
    metrics::gauge!("poll_targets").set(targets as f64);
    metrics::gauge!("poll_targets_paused").set(paused as f64);
    metrics::gauge!("poll_targets_invalid").set(invalid as f64);
    metrics::gauge!("poll_nodes").set(nodes as f64);
}

/// A look at the store failed; what was known stands.
pub(crate) fn blind(what: &'static str, error: &lease::Error) {
    metrics::counter!("poll_looks_failed_total", "what" => what).increment(1);
    tracing::warn!(target: TARGET, what, %error, "cannot look");
}

/// A record that cannot be polled.
pub(crate) fn invalid(endpoint: &str, why: &str) {
    tracing::warn!(target: TARGET, endpoint, why, "invalid target");
}

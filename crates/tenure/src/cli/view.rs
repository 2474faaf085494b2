//! JSON output, with the field names of the lease API. Statuses and reigns use its types.

use std::time::Duration;

use serde::Serialize;
use tenure_lease::{Busy, Lease, Token, Watched};

use super::human;

/// Milliseconds, rounded up.
fn ceil_millis(time: Duration) -> u64 {
    time.as_micros().div_ceil(1_000) as u64
}

/// A page of keys.
#[derive(Debug, Serialize)]
pub(crate) struct ListView {
    pub(crate) items: Vec<tenure_lease_api::StatusBody>,
    pub(crate) next: Option<String>,
    /// Watch from here to miss no change.
    pub(crate) revision: String,
}

/// One change.
#[derive(Debug, Default, Serialize)]
pub(crate) struct EventView {
    verb: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<String>,
}

impl From<&Watched> for EventView {
    fn from(watched: &Watched) -> Self {
        let Watched::Event(event) = watched else {
            return Self { verb: "lagged", ..Self::default() };
        };
        Self {
            verb: event.verb.as_str(),
            revision: Some(event.revision.get().to_string()),
            at: Some(human::format_time_ms(event.at)),
            key: Some(event.key.to_string()),
            holder: event.holder.as_ref().map(ToString::to_string),
            generation: event.generation.map(|generation| generation.to_string()),
        }
    }
}

/// A grant.
#[derive(Debug, Serialize)]
pub(crate) struct GrantView {
    key: String,
    holder: String,
    token: String,
    generation: String,
    ttl_ms: u64,
    lease_id: String,
}

impl GrantView {
    pub(crate) fn new(lease: &Lease, token: &Token) -> Self {
        Self {
            key: lease.key.to_string(),
            holder: lease.holder.to_string(),
            token: token.reveal().to_owned(),
            generation: lease.generation.to_string(),
            ttl_ms: lease.ttl.as_millis(),
            lease_id: lease.id().to_string(),
        }
    }
}

/// Why there is no grant.
#[derive(Debug, Serialize)]
pub(crate) struct BusyView {
    code: &'static str,
    holder: Option<String>,
    generation: Option<String>,
    remaining_ms: Option<u64>,
    position: u32,
    reason: &'static str,
}

impl From<&Busy> for BusyView {
    fn from(busy: &Busy) -> Self {
        Self {
            code: "BUSY",
            holder: busy.holder.as_ref().map(ToString::to_string),
            generation: busy.generation.map(|generation| generation.to_string()),
            remaining_ms: busy.remaining.map(ceil_millis),
            position: busy.position,
            reason: busy.reason.as_str(),
        }
    }
}

/// Describes why there is no grant.
pub(crate) fn describe_busy(key: &tenure_lease::Key, busy: &Busy) -> String {
    use tenure_lease::BusyReason;
    let holder = busy.holder.as_ref().map_or_else(|| "another holder".to_owned(), ToString::to_string);
    let state = match busy.reason {
        BusyReason::Held => format!("is held by {holder}"),
        BusyReason::Delayed => "was revoked and cannot be acquired yet".to_owned(),
        BusyReason::Reserved => format!("is reserved for {holder}"),
        BusyReason::Queued => {
            format!("is free but other claims are queued; this claim would be number {}", busy.position)
        }
        BusyReason::Quarantine => {
            "is not granted yet: the Redis server is new or was restarted, and a holder that it \
                               forgot may still be running (?quarantine_ms=0 in the URL disables this)"
                .to_owned()
        }
        BusyReason::Foreign => format!("has a value that is not a Tenure lease: {holder}"),
        BusyReason::NotThatGeneration => "has another generation".to_owned(),
    };
    let left = match busy.remaining {
        Some(left) => format!(", for at most {} unless renewed", human::format_duration(left)),
        None => String::new(),
    };
    format!("{key} {state}{left}")
}

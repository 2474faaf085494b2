//! What programs see: the fields of the lease service, generations as strings. A status and a reign are the
//! service's own.

use std::time::Duration;

use lease::{Busy, Lease, Token, Watched};
use serde::Serialize;

use super::human;

/// What others have to wait: a little more rather than less.
fn at_most(time: Duration) -> u64 {
    time.as_micros().div_ceil(1_000) as u64
}

/// A page of keys.
#[derive(Debug, Serialize)]
pub(crate) struct ListView {
    pub(crate) items: Vec<lease_api::StatusBody>,
    pub(crate) next: Option<String>,
    /// Watch from here to miss nothing.
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
            at: Some(human::precise(event.at)),
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
            remaining_ms: busy.remaining.map(at_most),
            position: busy.position,
            reason: busy.reason.as_str(),
        }
    }
}

/// Why there is no grant, in words.
pub(crate) fn busy_words(key: &lease::Key, busy: &Busy) -> String {
    use lease::Reason;
    let holder = busy.holder.as_ref().map_or_else(|| "somebody".to_owned(), ToString::to_string);
    let what = match busy.reason {
        Reason::Held => format!("is held by {holder}"),
        Reason::Delayed => "was revoked and nobody may have it yet".to_owned(),
        Reason::Reserved => format!("is reserved for {holder}"),
        Reason::Queued => {
            format!("is free but others wait in line; this claim would be number {}", busy.position)
        }
        Reason::Quarantine => {
            "is not granted yet: the Redis server is new or was restarted, and a holder it \
                               forgot may still be alive (?quarantine_ms=0 in the address switches this off)"
                .to_owned()
        }
        Reason::Foreign => format!("carries a value that is not a lease of Tenure: {holder}"),
        Reason::NotThatGeneration => "has another generation than the one named".to_owned(),
    };
    let left = match busy.remaining {
        Some(left) => format!(", for {} at most unless renewed", human::duration(left)),
        None => String::new(),
    };
    format!("{key} {what}{left}")
}

//! Domain values as JSON shows them.

use std::time::{Duration, SystemTime};

use lease::{Event, Generation, Phase, Reign, Status, Wall};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Which key.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct KeyQuery {
    /// The key.
    #[param(min_length = 1, max_length = 256, pattern = "^[!-~]+$", example = "tuner/3")]
    pub(super) key: String,
}

/// What a key is doing.
#[derive(Debug, Serialize, ToSchema)]
#[schema(title = "Status", example = json!({
    "key": "tuner/3", "state": "held", "holder": "node-b", "generation": "1782579200000042",
    "remaining_ms": 12040, "meta": "recording", "since": "2026-11-15T20:10:00.000Z", "waiters": 0
}))]
pub struct StatusBody {
    /// The key.
    key: String,
    /// free, held, delayed (revoked, and nobody may have it yet) or reserved (for a named heir).
    state: &'static str,
    /// Who holds it, or for whom it is reserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    /// The generation held, or the last one minted.
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<String>,
    /// What is left of the reign, the delay or the reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_ms: Option<u64>,
    /// What the holder says about itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<String>,
    /// Since when it is held.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    /// How many claims wait for it.
    waiters: u32,
}

/// The word for what a key is doing.
pub const fn state(phase: Phase) -> &'static str {
    match phase {
        Phase::Free => "free",
        Phase::Held => "held",
        Phase::Delayed => "delayed",
        Phase::Reserved => "reserved",
    }
}

impl From<&Status> for StatusBody {
    fn from(status: &Status) -> Self {
        Self {
            state: state(status.phase),
            holder: status.holder.as_ref().map(|holder| holder.as_str().into()),
            generation: status.generation.map(text),
            remaining_ms: status.remaining.map(at_most),
            meta: (!status.meta.is_empty()).then(|| status.meta.as_str().into()),
            since: status.since.map(moment),
            waiters: status.waiters,
            key: status.key.as_str().into(),
        }
    }
}

/// One reign.
#[derive(Debug, Serialize, ToSchema)]
#[schema(title = "Reign", example = json!({
    "holder": "node-a", "generation": "1782579200000041", "from": "2026-11-15T20:00:00.000Z",
    "until": "2026-11-15T20:10:00.000Z", "end": "released"
}))]
pub struct ReignBody {
    /// Who reigned.
    holder: String,
    /// Under which generation.
    generation: String,
    /// From when.
    from: String,
    /// Until when; null while it lasts.
    until: Option<String>,
    /// Why it ended: released, transferred, expired, revoked, superseded, wiped, holder_died or gone; null
    /// while it lasts.
    end: Option<&'static str>,
}

impl From<&Reign> for ReignBody {
    fn from(reign: &Reign) -> Self {
        Self {
            holder: reign.holder.as_str().into(),
            generation: text(reign.generation),
            from: moment(reign.from),
            until: reign.until.map(moment),
            end: reign.end.map(lease::End::as_str),
        }
    }
}

/// One change.
#[derive(Serialize, ToSchema)]
#[schema(title = "Change")]
pub(super) struct EventBody<'a> {
    revision: String,
    at: String,
    key: &'a str,
    verb: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<String>,
}

impl<'a> From<&'a Event> for EventBody<'a> {
    fn from(event: &'a Event) -> Self {
        Self {
            revision: event.revision.get().to_string(),
            at: moment(event.at),
            key: event.key.as_str(),
            verb: event.verb.as_str(),
            holder: event.holder.as_ref().map(lease::Holder::as_str),
            generation: event.generation.map(text),
        }
    }
}

/// A generation as it travels.
pub(super) fn text(generation: Generation) -> String {
    generation.to_string()
}

/// What others have to wait: a little more rather than less.
pub(super) fn at_most(time: Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// What the holder may rely on: a little less rather than more.
pub(super) fn at_least(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A moment for people, in RFC 3339.
fn moment(wall: Wall) -> String {
    // The formatter takes no moment after the year 9999.
    const LAST: u64 = 253_402_300_799_000_000;
    let since = Duration::from_micros(wall.as_micros().min(LAST));
    humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + since).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_rfc_3339_whatever_the_store_says() {
        assert_eq!(moment(Wall::from_micros(1_700_000_000_123_456)), "2023-11-14T22:13:20.123Z");
        assert_eq!(moment(Wall::from_micros(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(moment(Wall::from_micros(u64::MAX)), "9999-12-31T23:59:59.000Z");
    }

    #[test]
    fn times_are_rounded_to_the_safe_side() {
        let time = Duration::from_micros(1_500);
        assert_eq!((at_most(time), at_least(time)), (2, 1));
        assert_eq!((at_most(Duration::ZERO), at_least(Duration::ZERO)), (0, 0));
    }
}

//! Domain values as JSON bodies.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tenure_lease::{Event, Generation, Phase, Reign, Status, Wall};
use utoipa::{IntoParams, ToSchema};

/// The key of a request.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct KeyQuery {
    /// The key.
    #[param(min_length = 1, max_length = 256, pattern = "^[!-~]+$", example = "tuner/3")]
    pub(super) key: String,
}

/// The state of a key.
#[derive(Debug, Serialize, ToSchema)]
#[schema(title = "Status", example = json!({
    "key": "tuner/3", "state": "held", "holder": "node-b", "generation": "1782579200000042",
    "remaining_ms": 12040, "meta": "recording", "since": "2026-11-15T20:10:00.000Z", "waiters": 0
}))]
pub struct StatusBody {
    /// The key.
    key: String,
    /// free, held, delayed (revoked, and not yet available) or reserved (for a named successor).
    state: &'static str,
    /// The holder, or the holder that it is reserved for.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    /// The current generation, or the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<String>,
    /// The time left of the reign, the delay or the reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_ms: Option<u64>,
    /// The description that the holder gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<String>,
    /// When the reign began.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    /// The number of waiting claims.
    waiters: u32,
}

/// The name of a key's state.
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
            generation: status.generation.map(format_generation),
            remaining_ms: status.remaining.map(millis_rounded_up),
            meta: (!status.meta.is_empty()).then(|| status.meta.as_str().into()),
            since: status.since.map(format_time),
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
    /// The holder.
    holder: String,
    /// The generation.
    generation: String,
    /// When it began.
    from: String,
    /// When it ended; null while it lasts.
    until: Option<String>,
    /// Why it ended: released, transferred, expired, revoked, superseded, wiped, holder_died or gone; null
    /// while it lasts.
    end: Option<&'static str>,
}

impl From<&Reign> for ReignBody {
    fn from(reign: &Reign) -> Self {
        Self {
            holder: reign.holder.as_str().into(),
            generation: format_generation(reign.generation),
            from: format_time(reign.from),
            until: reign.until.map(format_time),
            end: reign.end.map(tenure_lease::End::as_str),
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
            at: format_time(event.at),
            key: event.key.as_str(),
            verb: event.verb.as_str(),
            holder: event.holder.as_ref().map(tenure_lease::Holder::as_str),
            generation: event.generation.map(format_generation),
        }
    }
}

/// A generation as a JSON string.
pub(super) fn format_generation(generation: Generation) -> String {
    generation.to_string()
}

/// Milliseconds that a waiter has to wait, rounded up.
pub(super) fn millis_rounded_up(time: Duration) -> u64 {
    u64::try_from(time.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
}

/// Milliseconds that a holder may rely on, rounded down.
pub(super) fn millis_rounded_down(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A time in RFC 3339.
fn format_time(wall: Wall) -> String {
    // The formatter accepts no time after the year 9999.
    const LAST: u64 = 253_402_300_799_000_000;
    let since = Duration::from_micros(wall.as_micros().min(LAST));
    humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + since).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_as_rfc_3339_and_bounded() {
        assert_eq!(format_time(Wall::from_micros(1_700_000_000_123_456)), "2023-11-14T22:13:20.123Z");
        assert_eq!(format_time(Wall::from_micros(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(format_time(Wall::from_micros(u64::MAX)), "9999-12-31T23:59:59.000Z");
    }

    #[test]
    fn durations_are_rounded_to_the_safe_side() {
        let time = Duration::from_micros(1_500);
        assert_eq!((millis_rounded_up(time), millis_rounded_down(time)), (2, 1));
        assert_eq!((millis_rounded_up(Duration::ZERO), millis_rounded_down(Duration::ZERO)), (0, 0));
    }
}

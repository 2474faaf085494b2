//! What the service says about itself. Built from values that have no place for a token.

use serde_json::json;
use service::telemetry::OWNERSHIP;

use crate::class::Source;
use crate::lease::{Ended, Event, View};
use crate::stream::Fate;
use crate::uptime::Ms;

/// The target of everything but ownership.
pub(crate) const TARGET: &str = "tenure::control";
const SCHEMA: &str = "1.0.0";

/// The envelope of an event, as one line of JSON: names that clients chose are escaped by that.
pub(crate) fn envelope(
    event: &str,
    now: Ms,
    view: &View,
    source: Source,
    command: &str,
    reason: &str,
) -> String {
    json!({
        "event": event, "ts_mono_ms": now.0, "schemaVersion": SCHEMA, "leaseId": view.id, "source": source.word(),
        "ownerWsClientId": view.owner.client, "ownerClientName": view.owner.name,
        "ownerInstanceId": view.owner.instance, "remainingMs": view.remaining, "command": command, "reason": reason,
    })
    .to_string()
}

/// The lease was taken, taken again or prolonged.
pub(crate) fn held(event: Event, now: Ms, view: &View, reason: &str) {
    metrics::counter!("control_lease_events_total", "event" => event.word()).increment(1);
    metrics::gauge!("control_lease_active").set(1.0);
    match event {
        Event::Heartbeat => {
            tracing::trace!(target: TARGET, envelope = %envelope("control.lease.heartbeat", now, view, Source::Ws, "control.heartbeat", reason));
        }
        _ => {
            tracing::info!(target: OWNERSHIP, envelope = %envelope("control.lease.acquired", now, view, Source::Ws, "control.acquire", reason), "control lease acquired");
        }
    }
}

/// The lease is over.
pub(crate) fn ended(now: Ms, ended: &Ended) {
    metrics::counter!("control_lease_events_total", "event" => ended.event.word()).increment(1);
    metrics::gauge!("control_lease_active").set(0.0);
    let event = match ended.event {
        Event::Expired => "control.lease.expired",
        _ => "control.lease.released",
    };
    tracing::info!(target: OWNERSHIP, envelope = %envelope(event, now, &ended.view, Source::Ws, "", &ended.reason), "control lease ended");
}

/// An acquire met a lock.
pub(crate) fn rejected(now: Ms, view: &View) {
    metrics::counter!("control_lease_events_total", "event" => "rejected_locked").increment(1);
    tracing::debug!(target: TARGET, envelope = %envelope("control.lease.rejected_locked", now, view, Source::Ws, "control.acquire", "locked"));
}

/// The lease was in the way of a command.
pub(crate) fn blocked(now: Ms, view: &View, source: Source, command: &str, reason: &str) {
    metrics::counter!("control_blocked_total", "source" => source.word()).increment(1);
    let event = match source {
        Source::Ws => "control.command.blocked.ws",
        Source::Rest => "control.command.blocked.rest",
        Source::Encoder => "control.command.blocked.local.encoder",
        Source::Serial => "control.command.blocked.local.serial",
    };
    tracing::debug!(target: TARGET, envelope = %envelope(event, now, view, source, command, reason));
}

/// A command was answered.
pub(crate) fn command(source: Source, result: &'static str) {
    metrics::counter!("control_commands_total", "source" => source.word(), "result" => result).increment(1);
}

/// A streamed frame came in.
pub(crate) fn frame(fate: Fate) {
    let result = match fate {
        Fate::Taken => "taken",
        Fate::Invalid => "invalid",
        Fate::Blocked => "blocked",
    };
    metrics::counter!("control_frames_total", "result" => result).increment(1);
}

/// A window of the renderer is over.
pub(crate) fn window(now: Ms, frames: u32, late: u32, streamed: u32, dropped: u32) {
    let ratio = if streamed == 0 { 0.0 } else { f64::from(dropped) / f64::from(streamed) };
    let view = json!({
        "event": "render.diagnostics.window", "ts_mono_ms": now.0, "schemaVersion": SCHEMA,
        "frames": frames, "late": late,
    });
    tracing::debug!(target: TARGET, envelope = %view);
    let drops = json!({
        "event": "render.frame.drop_ratio_window", "ts_mono_ms": now.0, "schemaVersion": SCHEMA,
        "framesRx": streamed, "framesDroppedMailbox": dropped, "ratio": ratio,
    });
    tracing::debug!(target: TARGET, envelope = %drops);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease::Owner;

    #[test]
    fn a_name_cannot_break_out_of_its_line() {
        let owner = Owner {
            client: 1,
            name: "a\"}\n{\"event\":\"forged\u{7f}\u{2028}".into(),
            instance: "\r\n".into(),
        };
        let view = View { owner, ..View::default() };
        let line = envelope("control.lease.acquired", Ms(1), &view, Source::Ws, "control.acquire", "x");
        assert!(!line.contains(['\n', '\r']));
        let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(parsed["event"], "control.lease.acquired");
        assert_eq!(parsed["ownerClientName"], view.owner.name);
    }

    #[test]
    fn the_envelope_has_the_fields_of_its_schema_and_no_other() {
        let line = envelope("e", Ms(1), &View::default(), Source::Rest, "c", "r");
        let parsed: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&line).unwrap();
        let mut names: Vec<_> = parsed.keys().map(String::as_str).collect();
        names.sort_unstable();
        let mut expected = [
            "event",
            "ts_mono_ms",
            "schemaVersion",
            "leaseId",
            "source",
            "ownerWsClientId",
            "ownerClientName",
            "ownerInstanceId",
            "remainingMs",
            "command",
            "reason",
        ];
        expected.sort_unstable();
        assert_eq!(names, expected);
    }
}

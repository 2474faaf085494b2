//! Log events and metrics of the service. Their inputs never contain a token.

use serde_json::json;
use tenure_service::telemetry::OWNERSHIP;

use crate::class::InputSource;
use crate::lease::{LeaseEnd, LeaseEvent, LeaseView};
use crate::stream::FrameOutcome;
use crate::uptime::UptimeMs;

/// The log target of everything except ownership.
pub(crate) const TARGET: &str = "tenure::control";
const SCHEMA: &str = "1.0.0";

/// The envelope of an event as one line of JSON, which escapes names given by clients.
pub(crate) fn envelope(
    event: &str,
    now: UptimeMs,
    view: &LeaseView,
    source: InputSource,
    command: &str,
    reason: &str,
) -> String {
    json!({
        "event": event, "ts_mono_ms": now.0, "schemaVersion": SCHEMA, "leaseId": view.id, "source": source.as_str(),
        "ownerWsClientId": view.owner.client, "ownerClientName": view.owner.name,
        "ownerInstanceId": view.owner.instance, "remainingMs": view.remaining, "command": command, "reason": reason,
    })
    .to_string()
}

/// The lease was acquired or extended.
pub(crate) fn record_held(event: LeaseEvent, now: UptimeMs, view: &LeaseView, reason: &str) {
    metrics::counter!("tenure_control_lease_events_total", "event" => event.as_str()).increment(1);
    metrics::gauge!("tenure_control_lease_active").set(1.0);
    match event {
        LeaseEvent::Heartbeat => {
            tracing::trace!(target: TARGET, envelope = %envelope("control.lease.heartbeat", now, view, InputSource::Ws, "control.heartbeat", reason));
        }
        _ => {
            tracing::info!(target: OWNERSHIP, envelope = %envelope("control.lease.acquired", now, view, InputSource::Ws, "control.acquire", reason), "control lease acquired");
        }
    }
}

/// The lease ended.
pub(crate) fn record_ended(now: UptimeMs, ended: &LeaseEnd) {
    metrics::counter!("tenure_control_lease_events_total", "event" => ended.event.as_str()).increment(1);
    metrics::gauge!("tenure_control_lease_active").set(0.0);
    let event = match ended.event {
        LeaseEvent::Expired => "control.lease.expired",
        _ => "control.lease.released",
    };
    tracing::info!(target: OWNERSHIP, envelope = %envelope(event, now, &ended.view, InputSource::Ws, "", &ended.reason), "control lease ended");
}

/// An acquire was refused because another client owns the lease.
pub(crate) fn record_rejected(now: UptimeMs, view: &LeaseView) {
    metrics::counter!("tenure_control_lease_events_total", "event" => "rejected_locked").increment(1);
    tracing::debug!(target: TARGET, envelope = %envelope("control.lease.rejected_locked", now, view, InputSource::Ws, "control.acquire", "locked"));
}

/// The lease blocked a command.
pub(crate) fn record_blocked(
    now: UptimeMs,
    view: &LeaseView,
    source: InputSource,
    command: &str,
    reason: &str,
) {
    metrics::counter!("tenure_control_blocked_total", "source" => source.as_str()).increment(1);
    let event = match source {
        InputSource::Ws => "control.command.blocked.ws",
        InputSource::Rest => "control.command.blocked.rest",
        InputSource::Encoder => "control.command.blocked.local.encoder",
        InputSource::Serial => "control.command.blocked.local.serial",
    };
    tracing::debug!(target: TARGET, envelope = %envelope(event, now, view, source, command, reason));
}

/// A command completed.
pub(crate) fn record_command(source: InputSource, result: &'static str) {
    metrics::counter!("tenure_control_commands_total", "source" => source.as_str(), "result" => result)
        .increment(1);
}

/// A streamed frame was received.
pub(crate) fn record_frame(outcome: FrameOutcome) {
    let result = match outcome {
        FrameOutcome::Accepted => "taken",
        FrameOutcome::Invalid => "invalid",
        FrameOutcome::Blocked => "blocked",
    };
    metrics::counter!("tenure_control_frames_total", "result" => result).increment(1);
}

/// A diagnostics window of the renderer ended.
pub(crate) fn record_window(now: UptimeMs, frames: u32, late: u32, streamed: u32, dropped: u32) {
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
    use crate::lease::LeaseOwner;

    #[test]
    fn a_client_name_cannot_forge_a_log_line() {
        let owner = LeaseOwner {
            client: 1,
            name: "a\"}\n{\"event\":\"forged\u{7f}\u{2028}".into(),
            instance: "\r\n".into(),
        };
        let view = LeaseView { owner, ..LeaseView::default() };
        let line =
            envelope("control.lease.acquired", UptimeMs(1), &view, InputSource::Ws, "control.acquire", "x");
        assert!(!line.contains(['\n', '\r']));
        let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(parsed["event"], "control.lease.acquired");
        assert_eq!(parsed["ownerClientName"], view.owner.name);
    }

    #[test]
    fn the_envelope_has_exactly_the_fields_of_its_schema() {
        let line = envelope("e", UptimeMs(1), &LeaseView::default(), InputSource::Rest, "c", "r");
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

//! All messages of the device: envelopes, states, broadcasts. Only [`AcquireReply`] contains the token, and it is sent
//! only to the owner.

use axum::extract::ws::Utf8Bytes;
use axum::response::{IntoResponse, Response};
use http::header;
use serde::Serialize;
use serde_json::{Value, json};

use crate::code::Refusal;
use crate::lease::{LeaseEnd, LeaseEvent, LeaseView, SCOPE};
use crate::uptime::UptimeMs;

/// The version of the REST envelope.
const VERSION: &str = "2.0";

/// The public status of the lease. If the lease is inactive, every field is present and empty.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeaseStatus {
    active: bool,
    lease_id: String,
    scope: &'static str,
    owner_client_name: String,
    owner_instance_id: String,
    owner_ws_client_id: u32,
    remaining_ms: u32,
    ttl_ms: u32,
    heartbeat_interval_ms: u32,
    takeover_allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl From<LeaseView> for LeaseStatus {
    fn from(view: LeaseView) -> Self {
        if view.id.is_empty() {
            return Self::default();
        }
        Self {
            active: view.active,
            lease_id: view.id,
            scope: SCOPE,
            owner_client_name: view.owner.name,
            owner_instance_id: view.owner.instance,
            owner_ws_client_id: view.owner.client,
            remaining_ms: view.remaining,
            ttl_ms: view.ttl,
            heartbeat_interval_ms: view.heartbeat,
            takeover_allowed: false,
            reason: None,
        }
    }
}

/// The reply to an acquire: the only message with the token.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AcquireReply<'a> {
    active: bool,
    lease_id: &'a str,
    lease_token: &'a str,
    scope: &'static str,
    owner_ws_client_id: u32,
    owner_client_name: &'a str,
    owner_instance_id: &'a str,
    ttl_ms: u32,
    heartbeat_interval_ms: u32,
    acquired_at_ms: u32,
    expires_at_ms: u32,
    remaining_ms: u32,
    takeover_allowed: bool,
}

impl<'a> AcquireReply<'a> {
    pub(crate) fn new(view: &'a LeaseView, token: &'a tenure_lease::Token) -> Self {
        Self {
            active: view.active,
            lease_id: &view.id,
            lease_token: token.reveal(),
            scope: SCOPE,
            owner_ws_client_id: view.owner.client,
            owner_client_name: &view.owner.name,
            owner_instance_id: &view.owner.instance,
            ttl_ms: view.ttl,
            heartbeat_interval_ms: view.heartbeat,
            acquired_at_ms: view.acquired.0,
            expires_at_ms: view.expires.0,
            remaining_ms: view.remaining,
            takeover_allowed: false,
        }
    }
}

/// The reply to a heartbeat.
pub(crate) fn heartbeat_ack(view: &LeaseView) -> Value {
    json!({
        "leaseId": view.id, "ttlMs": view.ttl, "remainingMs": view.remaining, "expiresAtMs": view.expires.0,
    })
}

/// The reply to a release.
pub(crate) fn released(id: &str, at: UptimeMs, reason: &str) -> Value {
    json!({ "released": true, "leaseId": id, "releasedAtMs": at.0, "reason": reason })
}

/// `control.stateChanged` for all clients.
pub(crate) fn state_changed(event: LeaseEvent, view: LeaseView) -> Utf8Bytes {
    broadcast("control.stateChanged", event.as_str(), &LeaseStatus::from(view))
}

/// `control.stateChanged` for the end of a lease.
pub(crate) fn state_ended(ended: &LeaseEnd) -> Utf8Bytes {
    let mut status = LeaseStatus::from(ended.view.clone());
    status.reason = Some(ended.reason.clone());
    broadcast("control.stateChanged", ended.event.as_str(), &status)
}

/// A broadcast of an event.
pub(crate) fn broadcast(kind: &str, event: &str, data: &impl Serialize) -> Utf8Bytes {
    json!({ "type": kind, "event": event, "success": true, "data": data }).to_string().into()
}

/// A broadcast without an event.
pub(crate) fn broadcast_state(kind: &str, data: &Value) -> Utf8Bytes {
    json!({ "type": kind, "success": true, "data": data }).to_string().into()
}

/// A successful reply on a WebSocket.
pub(crate) fn reply(kind: &str, request: Option<&Value>, data: &Value) -> Utf8Bytes {
    match request {
        Some(id) => json!({ "type": kind, "requestId": id, "success": true, "data": data }),
        None => json!({ "type": kind, "success": true, "data": data }),
    }
    .to_string()
    .into()
}

/// A refusal on a WebSocket.
pub(crate) fn error(request: Option<&Value>, refusal: &Refusal) -> Utf8Bytes {
    match request {
        Some(id) => json!({ "type": "error", "requestId": id, "success": false, "error": refusal.body() }),
        None => json!({ "type": "error", "success": false, "error": refusal.body() }),
    }
    .to_string()
    .into()
}

/// The request id to repeat in the reply: a string of at most 128 characters, or a number.
pub(crate) fn request_id(id: Option<&Value>) -> Option<&Value> {
    id.filter(|id| id.is_number() || id.as_str().is_some_and(|id| id.chars().count() <= 128))
}

/// A successful HTTP response.
pub(crate) fn rest_ok(data: &Value, now: UptimeMs) -> Response {
    let body = json!({ "success": true, "data": data, "timestamp": now.0, "version": VERSION });
    ([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], body.to_string())
        .into_response()
}

/// An HTTP error response.
pub(crate) fn rest_error(refusal: &Refusal, now: UptimeMs) -> Response {
    let status = refusal.status.unwrap_or_else(|| refusal.code.status());
    let body = json!({ "success": false, "error": refusal.body(), "timestamp": now.0, "version": VERSION });
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (status, headers, body.to_string()).into_response()
}

/// The nesting depth of arrays and objects, without parsing.
pub(crate) fn nesting_depth(text: &str) -> usize {
    let (mut depth, mut deepest, mut quoted, mut escaped) = (0usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'{' | b'[' if !quoted => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inactive_status_has_every_field_empty() {
        let status = serde_json::to_value(LeaseStatus::from(LeaseView::default())).unwrap();
        let expected = json!({
            "active": false, "leaseId": "", "scope": "", "ownerClientName": "", "ownerInstanceId": "",
            "ownerWsClientId": 0, "remainingMs": 0, "ttlMs": 0, "heartbeatIntervalMs": 0, "takeoverAllowed": false,
        });
        assert_eq!(status, expected);
    }

    #[test]
    fn depth_counts_nesting_and_not_quoted_brackets() {
        for (text, expected) in [
            ("1", 0),
            ("{}", 1),
            ("{\"a\":[[]]}", 3),
            ("\"[[[\"", 0),
            ("\"\\\"[\"", 0),
            ("{\"a\":\"\\\\\"}", 1),
        ] {
            assert_eq!(nesting_depth(text), expected, "{text}");
        }
    }

    #[test]
    fn only_a_short_request_id_is_repeated() {
        assert!(request_id(Some(&json!("req-1"))).is_some() && request_id(Some(&json!(7))).is_some());
        assert!(
            request_id(Some(&json!({}))).is_none() && request_id(Some(&json!("x".repeat(129)))).is_none()
        );
        assert!(request_id(None).is_none());
    }
}

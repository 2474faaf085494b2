//! The session as clients see it. Tickets, keys and tokens are never part of it.

use std::time::{Duration, SystemTime};

use serde::Serialize;
use tenure_session::{Session, SessionState, Target, UnixMs};
use utoipa::ToSchema;

use crate::state::ApiState;

/// A session.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(title = "Session", example = json!({
    "sessionId": "0198c0de-77aa-7bbb-8ccc-ddddeeeeffff", "requestId": "8f14e45fceea167a5a36dedd4bea2543",
    "serviceRef": "1:0:1:445D:453:1:C00000:0:0:0:", "profile": "high", "state": "READY", "reason": "R_NONE",
    "correlationId": "0198c0de-77aa-7bbb-8ccc-ddddeeee0000", "createdAtMs": 1794772800000u64, "updatedAtMs": 1794772803000u64,
    "heartbeatIntervalSeconds": 30, "leaseExpiresAt": "2026-11-15T20:02:03.000Z", "mode": "LIVE", "tunerSlot": 0,
    "playbackUrl": "/api/v3/sessions/0198c0de-77aa-7bbb-8ccc-ddddeeeeffff/hls/index.m3u8"
}))]
pub(crate) struct SessionBody {
    /// Its id.
    session_id: String,
    /// The id of this request, as in the header `x-request-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    /// The channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    service_ref: Option<String>,
    /// The recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    recording_id: Option<String>,
    /// The start position within the recording.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_ms: Option<u64>,
    /// The quality.
    profile: String,
    /// NEW, STARTING, PRIMING, READY, DRAINING, STOPPING, STOPPED, FAILED or CANCELLED.
    state: &'static str,
    /// Why it ended; `R_NONE` if it has not.
    reason: &'static str,
    /// The specific case of the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason_detail: Option<&'static str>,
    /// The reason in plain language.
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// The first client's name for its request.
    correlation_id: String,
    /// When it was created.
    created_at_ms: u64,
    /// When it last changed.
    updated_at_ms: u64,
    /// How often to send a heartbeat.
    heartbeat_interval_seconds: u64,
    /// When it expires unless a viewer is seen; omitted in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_expires_at: Option<String>,
    /// LIVE or RECORDING.
    mode: &'static str,
    /// The tuner slot it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    tuner_slot: Option<u32>,
    /// The URL of its playlist, while it can be played.
    #[serde(skip_serializing_if = "Option::is_none")]
    playback_url: Option<String>,
}

impl SessionBody {
    pub(crate) fn new(api: &ApiState, session: &Session) -> Self {
        let (service_ref, recording_id, start_ms) = match &session.target {
            Target::Live(service_ref) => (Some(service_ref.as_str().to_owned()), None, None),
            Target::Recording { id, start_ms } => (None, Some(id.as_str().to_owned()), Some(*start_ms)),
        };
        Self {
            session_id: session.id.as_str().to_owned(),
            request_id: None,
            service_ref,
            recording_id,
            start_ms,
            profile: session.profile.as_str().to_owned(),
            state: session.state.as_str(),
            reason: session.reason.as_str(),
            reason_detail: session.detail.map(tenure_session::Detail::as_str),
            detail: session.message.clone(),
            correlation_id: session.correlation.as_str().to_owned(),
            created_at_ms: session.created.0,
            updated_at_ms: session.updated.0,
            heartbeat_interval_seconds: api.options.heartbeat_interval.as_secs().max(1),
            lease_expires_at: None,
            mode: session.kind().as_str(),
            tuner_slot: session.slot,
            playback_url: is_playable(session.state)
                .then(|| format!("/api/v3/sessions/{}/hls/index.m3u8", session.id)),
        }
    }

    pub(crate) fn with_expiry(self, expiry: UnixMs) -> Self {
        Self { lease_expires_at: Some(format_time(expiry)), ..self }
    }

    pub(crate) fn with_request_id(self, request: Option<String>) -> Self {
        Self { request_id: request, ..self }
    }
}

/// Whether a session in this state can be played.
pub(crate) const fn is_playable(state: SessionState) -> bool {
    matches!(state, SessionState::Ready | SessionState::Draining)
}

/// Formats a time in RFC 3339.
pub(crate) fn format_time(at: UnixMs) -> String {
    // The formatter rejects times after the year 9999.
    const LAST: u64 = 253_402_300_799_000;
    let since = Duration::from_millis(at.0.min(LAST));
    humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + since).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_even_out_of_range() {
        assert_eq!(format_time(UnixMs(1_700_000_000_123)), "2023-11-14T22:13:20.123Z");
        assert_eq!(format_time(UnixMs(u64::MAX)), "9999-12-31T23:59:59.000Z");
    }

    #[test]
    fn only_ready_and_draining_sessions_are_playable() {
        let playable: Vec<_> = SessionState::ALL.iter().filter(|state| is_playable(**state)).collect();
        assert_eq!(playable, [&SessionState::Ready, &SessionState::Draining]);
    }
}

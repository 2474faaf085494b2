//! The stored form of sessions: JSON, encoded and decoded only here.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tenure_session::{
    CorrelationId, Detail, Error, IdempotencyKey, PipelineState, ProfileId, Reason, Result, Session,
    SessionId, SessionState, StopRequest, Target, Ticket, UnixMs,
};

use crate::ProcessIdentity;

/// A session.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionRow {
    session_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    service_ref: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recording_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start_ms: Option<u64>,
    profile: String,
    state: String,
    pipeline_state: String,
    reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason_detail: Option<String>,
    #[serde(rename = "words", default, skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    correlation_id: String,
    idempotency_key: String,
    created_at_ms: u64,
    updated_at_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tuner_slot: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    recovered_from: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    published_at_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ticket: Option<String>,
}

/// The fields of a session that decide whether it is decoded completely.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SummaryRow<'a> {
    #[serde(borrow)]
    state: std::borrow::Cow<'a, str>,
    created_at_ms: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MappingRow {
    session_id: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StopRow {
    reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    correlation_id: Option<String>,
    at_ms: u64,
    times: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeenRow {
    at_ms: u64,
}

#[derive(Serialize, Deserialize)]
struct IdentityRow {
    boot: String,
    pidns: u64,
    pid: u32,
    started: u64,
}

/// A stored stop request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RecordedStop {
    pub(crate) reason: Reason,
    /// How often it was sent: 1 stops with a grace period, 2 without.
    pub(crate) times: u32,
}

pub(crate) fn encode_session(session: &Session) -> Result<Arc<[u8]>> {
    let (service_ref, recording_id, start_ms) = match &session.target {
        Target::Live(service_ref) => (Some(service_ref.to_string()), None, None),
        Target::Recording { id, start_ms } => (None, Some(id.to_string()), Some(*start_ms)),
    };
    encode(&SessionRow {
        session_id: session.id.to_string(),
        service_ref,
        recording_id,
        start_ms,
        profile: session.profile.to_string(),
        state: session.state.as_str().to_owned(),
        pipeline_state: session.pipeline.as_str().to_owned(),
        reason: session.reason.as_str().to_owned(),
        reason_detail: session.detail.map(|detail| detail.as_str().to_owned()),
        message: session.message.clone(),
        correlation_id: session.correlation.to_string(),
        idempotency_key: session.idempotency.to_string(),
        created_at_ms: session.created.0,
        updated_at_ms: session.updated.0,
        tuner_slot: session.slot,
        recovered_from: session.recovered_from.map(|state| state.as_str().to_owned()),
        published_at_ms: session.published.map(|at| at.0),
        ticket: session.ticket.as_ref().map(|ticket| ticket.reveal().to_owned()),
    })
}

pub(crate) fn decode_session(bytes: &[u8]) -> Result<Session> {
    let row: SessionRow = decode("session", bytes)?;
    let start_ms = row.start_ms.filter(|_| row.recording_id.is_some());
    Ok(Session {
        id: SessionId::new(&row.session_id)?,
        target: Target::new(row.service_ref.as_deref(), row.recording_id.as_deref(), start_ms)?,
        profile: ProfileId::new(&row.profile)?,
        state: require("state", SessionState::parse(&row.state))?,
        pipeline: require("pipelineState", PipelineState::parse(&row.pipeline_state))?,
        reason: Reason::parse(&row.reason).unwrap_or(Reason::Unknown),
        detail: row.reason_detail.as_deref().and_then(Detail::parse),
        message: row.message,
        correlation: CorrelationId::new(&row.correlation_id)?,
        idempotency: IdempotencyKey::from_hex(&row.idempotency_key)?,
        created: UnixMs(row.created_at_ms),
        updated: UnixMs(row.updated_at_ms),
        slot: row.tuner_slot,
        recovered_from: row.recovered_from.as_deref().and_then(SessionState::parse),
        published: row.published_at_ms.map(UnixMs),
        ticket: row.ticket.map(Ticket::new),
    })
}

/// The state and creation time of a session.
pub(crate) struct SessionSummary {
    pub(crate) state: SessionState,
    pub(crate) created: UnixMs,
}

pub(crate) fn decode_summary(bytes: &[u8]) -> Result<SessionSummary> {
    let row: SummaryRow<'_> = decode("session", bytes)?;
    Ok(SessionSummary {
        state: require("state", SessionState::parse(&row.state))?,
        created: UnixMs(row.created_at_ms),
    })
}

pub(crate) fn encode_mapping(id: &SessionId) -> Result<Arc<[u8]>> {
    encode(&MappingRow { session_id: id.to_string() })
}

pub(crate) fn decode_mapping(bytes: &[u8]) -> Result<SessionId> {
    SessionId::new(decode::<MappingRow>("mapping", bytes)?.session_id)
}

pub(crate) fn encode_stop(stop: &StopRequest, times: u32) -> Result<Arc<[u8]>> {
    encode(&StopRow {
        reason: stop.reason.as_str().to_owned(),
        correlation_id: stop.correlation.as_ref().map(ToString::to_string),
        at_ms: stop.at.0,
        times,
    })
}

pub(crate) fn decode_stop(bytes: &[u8]) -> Result<RecordedStop> {
    let row: StopRow = decode("stop", bytes)?;
    Ok(RecordedStop { reason: Reason::parse(&row.reason).unwrap_or(Reason::ClientStop), times: row.times })
}

pub(crate) fn encode_seen(at: UnixMs) -> Result<Arc<[u8]>> {
    encode(&SeenRow { at_ms: at.0 })
}

pub(crate) fn decode_seen(bytes: &[u8]) -> Result<UnixMs> {
    Ok(UnixMs(decode::<SeenRow>("seen", bytes)?.at_ms))
}

pub(crate) fn encode_identity(identity: &ProcessIdentity) -> Result<Arc<[u8]>> {
    let ProcessIdentity { boot, namespace, pid, started } = identity.clone();
    encode(&IdentityRow { boot, pidns: namespace, pid, started })
}

/// `None` if the text is not a process identity.
pub(crate) fn decode_identity(text: &str) -> Option<ProcessIdentity> {
    let row: IdentityRow = decode("identity", text.as_bytes()).ok()?;
    Some(ProcessIdentity { boot: row.boot, namespace: row.pidns, pid: row.pid, started: row.started })
}

fn encode(row: &impl Serialize) -> Result<Arc<[u8]>> {
    let bytes = serde_json::to_vec(row).map_err(|error| Error::Unavailable(error.to_string()))?;
    Ok(bytes.into())
}

fn decode<'a, T: Deserialize<'a>>(what: &str, bytes: &'a [u8]) -> Result<T> {
    // The text of serde's error may quote a value, and a record may contain a ticket.
    serde_json::from_slice(bytes)
        .map_err(|error| Error::Unavailable(format!("malformed {what} record at column {}", error.column())))
}

fn require<T>(field: &str, known: Option<T>) -> Result<T> {
    known.ok_or_else(|| Error::Unavailable(format!("unknown {field} in a session record")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(target: Target) -> Session {
        let session = Session::new(
            SessionId::new("s1").unwrap(),
            target,
            ProfileId::new("high").unwrap(),
            CorrelationId::new("c1").unwrap(),
            IdempotencyKey::from_hex(&"0".repeat(64)).unwrap(),
            UnixMs(7),
        );
        Session {
            slot: Some(3),
            detail: Some(Detail::RejectedBusy),
            message: Some("taken".to_owned()),
            recovered_from: Some(SessionState::Starting),
            published: Some(UnixMs(9)),
            ticket: Some(Ticket::new("secret")),
            ..session
        }
    }

    #[test]
    fn records_round_trip() {
        let live = Target::new(Some("1:0:1:"), None, None).unwrap();
        let recording = Target::new(None, Some("rec-1"), Some(0)).unwrap();
        for target in [live, recording] {
            let session = example(target);
            assert_eq!(decode_session(&encode_session(&session).unwrap()).unwrap(), session);
        }
        let id = SessionId::new("s1").unwrap();
        assert_eq!(decode_mapping(&encode_mapping(&id).unwrap()).unwrap(), id);
        assert_eq!(decode_seen(&encode_seen(UnixMs(5)).unwrap()).unwrap(), UnixMs(5));
        let asked = StopRequest { session: id, reason: Reason::ClientStop, correlation: None, at: UnixMs(1) };
        assert_eq!(
            decode_stop(&encode_stop(&asked, 2).unwrap()).unwrap(),
            RecordedStop { reason: Reason::ClientStop, times: 2 }
        );
    }

    #[test]
    fn a_decode_error_reveals_no_value() {
        let error = decode_session(br#"{"sessionId":"s1","ticket":17}"#).unwrap_err().to_string();
        assert!(!error.contains("17"), "{error}");
        assert!(decode_session(b"").is_err());
        assert_eq!(decode_identity("nonsense"), None);
    }
}

//! Sessions as they lie in a store: JSON, made and read here and nowhere else.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use session::{
    CorrelationId, Detail, Error, IdempotencyKey, Pipeline, ProfileId, Reason, Result, Session, SessionId,
    State, StopRequest, Target, Ticket, UnixMs,
};

use crate::Identity;

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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    words: Option<String>,
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

/// As much of a session as decides whether it is looked at.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GlanceRow<'a> {
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

/// A stop as it was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Asked {
    pub(crate) reason: Reason,
    /// Once is a request, twice is impatience.
    pub(crate) times: u32,
}

pub(crate) fn session(session: &Session) -> Result<Arc<[u8]>> {
    let (service_ref, recording_id, start_ms) = match &session.target {
        Target::Live(service_ref) => (Some(service_ref.to_string()), None, None),
        Target::Recording { id, start_ms } => (None, Some(id.to_string()), Some(*start_ms)),
    };
    write(&SessionRow {
        session_id: session.id.to_string(),
        service_ref,
        recording_id,
        start_ms,
        profile: session.profile.to_string(),
        state: session.state.word().to_owned(),
        pipeline_state: session.pipeline.word().to_owned(),
        reason: session.reason.word().to_owned(),
        reason_detail: session.detail.map(|detail| detail.word().to_owned()),
        words: session.words.clone(),
        correlation_id: session.correlation.to_string(),
        idempotency_key: session.idempotency.to_string(),
        created_at_ms: session.created.0,
        updated_at_ms: session.updated.0,
        tuner_slot: session.slot,
        recovered_from: session.recovered_from.map(|state| state.word().to_owned()),
        published_at_ms: session.published.map(|at| at.0),
        ticket: session.ticket.as_ref().map(|ticket| ticket.reveal().to_owned()),
    })
}

pub(crate) fn read_session(bytes: &[u8]) -> Result<Session> {
    let row: SessionRow = read("session", bytes)?;
    let start_ms = row.start_ms.filter(|_| row.recording_id.is_some());
    Ok(Session {
        id: SessionId::new(&row.session_id)?,
        target: Target::new(row.service_ref.as_deref(), row.recording_id.as_deref(), start_ms)?,
        profile: ProfileId::new(&row.profile)?,
        state: word("state", State::parse(&row.state))?,
        pipeline: word("pipelineState", Pipeline::parse(&row.pipeline_state))?,
        reason: Reason::parse(&row.reason).unwrap_or(Reason::Unknown),
        detail: row.reason_detail.as_deref().and_then(Detail::parse),
        words: row.words,
        correlation: CorrelationId::new(&row.correlation_id)?,
        idempotency: IdempotencyKey::from_hex(&row.idempotency_key)?,
        created: UnixMs(row.created_at_ms),
        updated: UnixMs(row.updated_at_ms),
        slot: row.tuner_slot,
        recovered_from: row.recovered_from.as_deref().and_then(State::parse),
        published: row.published_at_ms.map(UnixMs),
        ticket: row.ticket.map(Ticket::new),
    })
}

/// What a glance at a session shows.
pub(crate) struct Glance {
    pub(crate) state: State,
    pub(crate) created: UnixMs,
}

pub(crate) fn glance(bytes: &[u8]) -> Result<Glance> {
    let row: GlanceRow<'_> = read("session", bytes)?;
    Ok(Glance { state: word("state", State::parse(&row.state))?, created: UnixMs(row.created_at_ms) })
}

pub(crate) fn mapping(id: &SessionId) -> Result<Arc<[u8]>> {
    write(&MappingRow { session_id: id.to_string() })
}

pub(crate) fn read_mapping(bytes: &[u8]) -> Result<SessionId> {
    SessionId::new(read::<MappingRow>("mapping", bytes)?.session_id)
}

pub(crate) fn stop(stop: &StopRequest, times: u32) -> Result<Arc<[u8]>> {
    write(&StopRow {
        reason: stop.reason.word().to_owned(),
        correlation_id: stop.correlation.as_ref().map(ToString::to_string),
        at_ms: stop.at.0,
        times,
    })
}

pub(crate) fn read_stop(bytes: &[u8]) -> Result<Asked> {
    let row: StopRow = read("stop", bytes)?;
    Ok(Asked { reason: Reason::parse(&row.reason).unwrap_or(Reason::ClientStop), times: row.times })
}

pub(crate) fn seen(at: UnixMs) -> Result<Arc<[u8]>> {
    write(&SeenRow { at_ms: at.0 })
}

pub(crate) fn read_seen(bytes: &[u8]) -> Result<UnixMs> {
    Ok(UnixMs(read::<SeenRow>("seen", bytes)?.at_ms))
}

pub(crate) fn identity(identity: &Identity) -> Result<Arc<[u8]>> {
    let Identity { boot, namespace, pid, started } = identity.clone();
    write(&IdentityRow { boot, pidns: namespace, pid, started })
}

/// None when it says nothing of the kind.
pub(crate) fn read_identity(text: &str) -> Option<Identity> {
    let row: IdentityRow = read("identity", text.as_bytes()).ok()?;
    Some(Identity { boot: row.boot, namespace: row.pidns, pid: row.pid, started: row.started })
}

fn write(row: &impl Serialize) -> Result<Arc<[u8]>> {
    let bytes = serde_json::to_vec(row).map_err(|error| Error::Unavailable(error.to_string()))?;
    Ok(bytes.into())
}

fn read<'a, T: Deserialize<'a>>(what: &str, bytes: &'a [u8]) -> Result<T> {
    // The text of serde's error may quote a value, and a row may hold a ticket.
    serde_json::from_slice(bytes).map_err(|error| {
        Error::Unavailable(format!("a {what} in the store cannot be read at {}", error.column()))
    })
}

fn word<T>(field: &str, known: Option<T>) -> Result<T> {
    known.ok_or_else(|| Error::Unavailable(format!("a session in the store has a {field} that nobody knows")))
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
            words: Some("taken".to_owned()),
            recovered_from: Some(State::Starting),
            published: Some(UnixMs(9)),
            ticket: Some(Ticket::new("secret")),
            ..session
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let live = Target::new(Some("1:0:1:"), None, None).unwrap();
        let recording = Target::new(None, Some("rec-1"), Some(0)).unwrap();
        for target in [live, recording] {
            let session = example(target);
            assert_eq!(read_session(&super::session(&session).unwrap()).unwrap(), session);
        }
        let id = SessionId::new("s1").unwrap();
        assert_eq!(read_mapping(&mapping(&id).unwrap()).unwrap(), id);
        assert_eq!(read_seen(&seen(UnixMs(5)).unwrap()).unwrap(), UnixMs(5));
        let asked = StopRequest { session: id, reason: Reason::ClientStop, correlation: None, at: UnixMs(1) };
        assert_eq!(
            read_stop(&stop(&asked, 2).unwrap()).unwrap(),
            Asked { reason: Reason::ClientStop, times: 2 }
        );
    }

    #[test]
    fn a_row_that_cannot_be_read_shows_nothing_of_itself() {
        let error = read_session(br#"{"sessionId":"s1","ticket":17}"#).unwrap_err().to_string();
        assert!(!error.contains("17"), "{error}");
        assert!(read_session(b"").is_err());
        assert_eq!(read_identity("somebody"), None);
    }
}

//! `GET /api/v3/sessions/{id}/events`: the states of a session as server-sent events.
//!
//! Nothing is queued: the next change is read when the client has taken the previous one. A slow client may miss
//! intermediate states, never the last one.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive};
use axum::response::{IntoResponse, Response, Sse};
use futures_util::stream;
use http::{HeaderMap, StatusCode};
use tenure_service::{Code, Problem, ProblemBody};
use tenure_session::{Session, SessionChanges};
use tokio::sync::OwnedSemaphorePermit;

use crate::error::ApiError;
use crate::extract::{PathId, ReadAccess};
use crate::state::{ApiState, bounded};
use crate::view::SessionBody;

/// The keep-alive interval of an idle stream.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// One client's stream of one session.
struct EventStream {
    api: Arc<ApiState>,
    changes: Box<dyn SessionChanges>,
    /// The state to send first.
    first: Option<Session>,
    sent: Option<Session>,
    id: u64,
    _permit: OwnedSemaphorePermit,
}

/// Follow a session as server-sent events `state`: first its current state, then each change. The stream ends after the
/// terminal state. `data` is the session; `id` increases.
#[utoipa::path(
    get, path = "/api/v3/sessions/{id}/events", tag = "sessions", operation_id = "events",
    params(
        ("id" = String, Path, description = "The session", max_length = 64, pattern = "^[A-Za-z0-9_-]+$"),
        ("last-event-id" = Option<String>, Header, description = "The id of the last event received"),
    ),
    responses(
        (status = 200, body = String, content_type = "text/event-stream", description = "The states of the session until it ends"),
        (status = 204, description = "The session has ended and the client has received its last event"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "The session does not exist"),
    )
)]
pub(crate) async fn stream_events(
    State(api): State<Arc<ApiState>>,
    _: ReadAccess,
    PathId(id): PathId,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let most = api.options.max_watchers;
    let permit = api.watchers.clone().try_acquire_owned().map_err(|_| {
        Problem::new(Code::TOO_MANY, format!("the limit is {most} event streams")).with("limit", most)
    })?;
    // Subscribe before reading: a change in between is then seen twice rather than missed.
    let changes = bounded(api.ports.log.changes(&id)).await?;
    let session = api.get(&id).await?;
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse::<u64>().ok());
    if session.state.is_terminal() && seen.is_some_and(|seen| seen >= session.updated.0) {
        // Browsers reconnect when a stream ends; 204 tells them not to.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let stream = EventStream {
        api,
        changes,
        first: Some(session),
        sent: None,
        id: seen.unwrap_or(0),
        _permit: permit,
    };
    let events = stream::unfold(stream, |mut stream| async {
        let event = stream.next().await?;
        Some((Ok::<_, Infallible>(event), stream))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response())
}

impl EventStream {
    /// The next event; `None` at the end.
    async fn next(&mut self) -> Option<Event> {
        if let Some(first) = self.first.take() {
            return Some(self.send(first).await);
        }
        if self.sent.as_ref().is_some_and(|sent| sent.state.is_terminal()) {
            return None;
        }
        let session = self.next_change().await?;
        Some(self.send(session).await)
    }

    async fn next_change(&mut self) -> Option<Session> {
        loop {
            let changed = tokio::select! {
                biased;
                () = self.api.options.shutdown.wait() => return None,
                changed = self.changes.next() => changed,
            };
            match changed {
                Ok(Some(session)) if self.sent.as_ref().is_none_or(|sent| is_newer(sent, &session)) => {
                    return Some(session);
                }
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(error) => {
                    tracing::debug!(%error, "subscription to a session ended");
                    return None;
                }
            }
        }
    }

    async fn send(&mut self, session: Session) -> Event {
        self.id = (self.id + 1).max(session.updated.0);
        let mut body = SessionBody::new(&self.api, &session);
        if !session.state.is_terminal()
            && let Ok(wanted) = self.api.last_wanted(&session).await
        {
            body = body.with_expiry(self.api.expiry(wanted));
        }
        let data = serde_json::to_string(&body).unwrap_or_default();
        self.sent = Some(session);
        Event::default().id(self.id.to_string()).event("state").data(data)
    }
}

/// Whether a change is newer than the state sent last. It may be older because the subscription starts before the read.
fn is_newer(sent: &Session, change: &Session) -> bool {
    if change.updated != sent.updated {
        return change.updated > sent.updated;
    }
    // Within one millisecond a session only moves forward, except for a reset after a worker was lost.
    change != sent && (change.state >= sent.state || change.recovered_from != sent.recovered_from)
}

#[cfg(test)]
mod tests {
    use tenure_session::{CorrelationId, IdempotencyKey, ProfileId, SessionEvent, SessionId, Target, UnixMs};

    use super::*;

    #[test]
    fn a_change_older_than_the_state_sent_last_is_skipped() {
        let new = Session::new(
            SessionId::new("s1").unwrap(),
            Target::new(Some("1:0:1"), None, None).unwrap(),
            ProfileId::new("high").unwrap(),
            CorrelationId::new("c1").unwrap(),
            IdempotencyKey::from_hex(&"0".repeat(64)).unwrap(),
            UnixMs(1_000),
        );
        let after = |session: &Session, event, at| session.apply(event, UnixMs(at)).unwrap().unwrap();
        let starting = after(&new, SessionEvent::Pick, 1_000);
        let priming = after(&starting, SessionEvent::Prime, 1_000);
        let reset = after(&starting, SessionEvent::Reset, 1_000);
        assert!(is_newer(&new, &starting) && is_newer(&starting, &priming) && is_newer(&starting, &reset));
        assert!(!is_newer(&priming, &starting) && !is_newer(&starting, &new) && !is_newer(&new, &new));
        assert!(is_newer(&priming, &after(&priming, SessionEvent::Fail, 2_000)));
        assert!(!is_newer(&after(&priming, SessionEvent::Publish, 2_000), &priming));
    }
}

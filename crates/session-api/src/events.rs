//! `GET /api/v3/sessions/{id}/events`: a session's life as server-sent events.
//!
//! Nothing is queued here: the next change is read when the client has taken the last one, and a client that reads
//! slowly sees fewer of them, the last one always.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive};
use axum::response::{IntoResponse, Response, Sse};
use futures_util::stream;
use http::{HeaderMap, StatusCode};
use service::{Code, Problem, ProblemBody};
use session::{Changes, Session};
use tokio::sync::OwnedSemaphorePermit;

use crate::gate::{Id, Reader};
use crate::site::{Site, bounded};
use crate::trouble::Trouble;
use crate::view::SessionBody;

/// How often a quiet stream says that it lives.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// One client of one session.
struct Watch {
    site: Arc<Site>,
    changes: Box<dyn Changes>,
    /// What is to be shown before anything else.
    first: Option<Session>,
    shown: Option<Session>,
    id: u64,
    _place: OwnedSemaphorePermit,
}

/// Watch a session as server-sent events `state`: first what it is now, then each change, and after the last one the
/// stream ends. `data` is the session, `id` rises.
#[utoipa::path(
    get, path = "/api/v3/sessions/{id}/events", tag = "sessions", operation_id = "events",
    params(
        ("id" = String, Path, description = "The session", max_length = 64, pattern = "^[A-Za-z0-9_-]+$"),
        ("last-event-id" = Option<String>, Header, description = "The last event that was seen"),
    ),
    responses(
        (status = 200, body = String, content_type = "text/event-stream", description = "Its states, until it is over"),
        (status = 204, description = "It is over, and the last event that was seen was its last"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is none"),
    )
)]
pub(crate) async fn events(
    State(site): State<Arc<Site>>,
    _: Reader,
    Id(id): Id,
    headers: HeaderMap,
) -> Result<Response, Trouble> {
    let most = site.options.max_watchers;
    let place = site.watchers.clone().try_acquire_owned().map_err(|_| {
        Problem::new(Code::TOO_MANY, format!("at most {most} streams are allowed")).with("limit", most)
    })?;
    // First the changes, then what is now: what happens in between is seen twice rather than never.
    let changes = bounded(site.ports.log.changes(&id)).await?;
    let session = site.get(&id).await?;
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse::<u64>().ok());
    if session.state.is_terminal() && seen.is_some_and(|seen| seen >= session.updated.0) {
        // A browser comes back whenever a stream ends; this tells it not to.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let watch =
        Watch { site, changes, first: Some(session), shown: None, id: seen.unwrap_or(0), _place: place };
    let told = stream::unfold(watch, |mut watch| async {
        let event = watch.next().await?;
        Some((Ok::<_, Infallible>(event), watch))
    });
    Ok(Sse::new(told).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response())
}

impl Watch {
    /// The next state to show; none at the end.
    async fn next(&mut self) -> Option<Event> {
        if let Some(first) = self.first.take() {
            return Some(self.show(first).await);
        }
        if self.shown.as_ref().is_some_and(|shown| shown.state.is_terminal()) {
            return None;
        }
        let session = self.news().await?;
        Some(self.show(session).await)
    }

    async fn news(&mut self) -> Option<Session> {
        loop {
            let changed = tokio::select! {
                biased;
                () = self.site.options.shutdown.wait() => return None,
                changed = self.changes.next() => changed,
            };
            match changed {
                Ok(Some(session)) if self.shown.as_ref().is_none_or(|shown| is_news(shown, &session)) => {
                    return Some(session);
                }
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(error) => {
                    tracing::debug!(%error, "a watch of a session ended");
                    return None;
                }
            }
        }
    }

    async fn show(&mut self, session: Session) -> Event {
        self.id = (self.id + 1).max(session.updated.0);
        let mut body = SessionBody::new(&self.site, &session);
        if !session.state.is_terminal()
            && let Ok(wanted) = self.site.wanted(&session).await
        {
            body = body.until(self.site.expiry(wanted));
        }
        let data = serde_json::to_string(&body).unwrap_or_default();
        self.shown = Some(session);
        Event::default().id(self.id.to_string()).event("state").data(data)
    }
}

/// Whether a change comes after what was shown. It may be older: changes are listened to before the record is read.
fn is_news(shown: &Session, change: &Session) -> bool {
    if change.updated != shown.updated {
        return change.updated > shown.updated;
    }
    // Within one millisecond a session only goes forward, but for a new start after a worker was lost.
    change != shown && (change.state >= shown.state || change.recovered_from != shown.recovered_from)
}

#[cfg(test)]
mod tests {
    use session::{CorrelationId, Event, IdempotencyKey, ProfileId, SessionId, Target, UnixMs};

    use super::*;

    #[test]
    fn what_is_older_than_what_was_shown_is_no_news() {
        let new = Session::new(
            SessionId::new("s1").unwrap(),
            Target::new(Some("1:0:1"), None, None).unwrap(),
            ProfileId::new("high").unwrap(),
            CorrelationId::new("c1").unwrap(),
            IdempotencyKey::from_hex(&"0".repeat(64)).unwrap(),
            UnixMs(1_000),
        );
        let after = |session: &Session, event, at| session.after(event, UnixMs(at)).unwrap().unwrap();
        let starting = after(&new, Event::Pick, 1_000);
        let priming = after(&starting, Event::Prime, 1_000);
        let reset = after(&starting, Event::Reset, 1_000);
        assert!(is_news(&new, &starting) && is_news(&starting, &priming) && is_news(&starting, &reset));
        assert!(!is_news(&priming, &starting) && !is_news(&starting, &new) && !is_news(&new, &new));
        assert!(is_news(&priming, &after(&priming, Event::Fail, 2_000)));
        assert!(!is_news(&after(&priming, Event::Publish, 2_000), &priming));
    }
}

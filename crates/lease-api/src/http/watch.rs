//! `GET /v1/leases/watch`

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::{Stream, stream};
use http::HeaderMap;
use serde::Deserialize;
use tenure_lease::{Error, Prefix, Revision, Watched};
use tenure_service::{ProblemBody, Query};
use utoipa::IntoParams;

use super::body::EventBody;
use super::scope::Reader;
use crate::error::ApiError;
use crate::service::LeaseService;
use crate::watch::{Visibility, WatchStream};

/// How often an idle watch sends a comment.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// What to watch.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WatchQuery {
    /// Only keys with this prefix.
    #[param(max_length = 256, pattern = "^[!-~]*$")]
    prefix: Option<String>,
    /// Changes after this revision; only new ones if absent. The header `Last-Event-ID` takes precedence.
    from: Option<u64>,
}

/// Watch changes as server-sent events: `id` is the revision, `event` the verb. `lagged` means that changes were missed:
/// list again.
#[utoipa::path(
    get, path = "/v1/leases/watch", tag = "leases", operation_id = "watch",
    params(WatchQuery, ("last-event-id" = Option<String>, Header, description = "Resume after this revision")),
    responses(
        (status = 200, body = String, content_type = "text/event-stream", description = "Changes, until either side ends it"),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 429, body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn watch(
    State(service): State<Arc<LeaseService>>,
    _: Reader,
    Query(query): Query<WatchQuery>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let prefix = Prefix::new(query.prefix.unwrap_or_default())?;
    let from = last_event_id(&headers)?.or(query.from).map(Revision::new);
    let changes = service.watch(&prefix, from, Visibility::Public).await?;
    let events = stream::unfold(changes, |mut changes: WatchStream| async {
        let watched = changes.next().await?;
        Some((Ok(event(&watched)), changes))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)))
}

/// The last revision that a reconnecting browser received.
fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, Error> {
    let Some(id) = headers.get("last-event-id").filter(|id| !id.is_empty()) else { return Ok(None) };
    let number = id.to_str().ok().and_then(|id| id.parse().ok());
    number
        .map(Some)
        .ok_or_else(|| Error::invalid("last-event-id", "must be the id of an event, which is a revision"))
}

fn event(watched: &Watched) -> Event {
    match watched {
        Watched::Lagged => Event::default().event("lagged").data("{}"),
        Watched::Event(event) => {
            let data = serde_json::to_string(&EventBody::from(event)).unwrap_or_default();
            Event::default().id(event.revision.get().to_string()).event(event.verb.as_str()).data(data)
        }
    }
}

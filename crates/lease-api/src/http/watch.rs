//! `GET /v1/leases/watch`

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::{Stream, stream};
use http::HeaderMap;
use lease::{Error, Prefix, Revision, Watched};
use serde::Deserialize;
use service::{ProblemBody, Query};
use utoipa::IntoParams;

use super::gate::Reader;
use super::view::EventBody;
use crate::feed::{Feed, Sight};
use crate::site::Site;
use crate::trouble::Trouble;

/// How often a quiet watch says that it lives.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// What to watch.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct WatchQuery {
    /// Only keys that begin so.
    #[param(max_length = 256, pattern = "^[!-~]*$")]
    prefix: Option<String>,
    /// Changes after this revision; absent is from now on. The header `Last-Event-ID` comes before it.
    from: Option<u64>,
}

/// Watch changes as server-sent events: `id` is the revision, `event` the verb. After `lagged`, changes were
/// missed: list again.
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
    State(site): State<Arc<Site>>,
    _: Reader,
    Query(asked): Query<WatchQuery>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Trouble> {
    let prefix = Prefix::new(asked.prefix.unwrap_or_default())?;
    let from = resume(&headers)?.or(asked.from).map(Revision::new);
    let feed = site.watch(&prefix, from, Sight::Public).await?;
    let events = stream::unfold(feed, |mut feed: Feed| async {
        let watched = feed.next().await?;
        Some((Ok(event(&watched)), feed))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(HEARTBEAT)))
}

/// What a browser that lost its connection saw last.
fn resume(headers: &HeaderMap) -> Result<Option<u64>, Error> {
    let Some(id) = headers.get("last-event-id").filter(|id| !id.is_empty()) else { return Ok(None) };
    let number = id.to_str().ok().and_then(|id| id.parse().ok());
    number
        .map(Some)
        .ok_or_else(|| Error::invalid("last-event-id", "must be a revision, as the events' ids are"))
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

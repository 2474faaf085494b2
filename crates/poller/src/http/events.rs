//! `GET /poll/v1/events`: ownership changes of all nodes and results of this node as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::{Stream, stream};
use serde::Serialize;
use tenure_service::{Area, Caller, Code, Level, Problem};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::node::{NodeState, OwnershipEvent};
use crate::result::PollResult;

/// Interval of keep-alive comments on an idle stream.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Maximum number of streams of one node.
const MAX_STREAMS: usize = 1_024;

struct EventStream {
    state: Arc<NodeState>,
    ownership: broadcast::Receiver<OwnershipEvent>,
    results: broadcast::Receiver<Arc<PollResult>>,
}

/// `moved` carries the target, what happened and the holder. `result` carries a result. After `lagged`, read again.
#[utoipa::path(
    get, path = "/poll/v1/events", tag = "polling", operation_id = "pollEvents",
    responses((status = 200, description = "An endless stream of server-sent events", body = String, content_type = "text/event-stream"))
)]
pub(super) async fn events(
    State(state): State<Arc<NodeState>>,
    caller: Caller,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    caller.require(Area::Poll, Level::Read)?;
    if state.ownership_events.receiver_count() >= MAX_STREAMS {
        return Err(Problem::new(Code::TOO_MANY, format!("at most {MAX_STREAMS} streams are allowed"))
            .with("limit", MAX_STREAMS));
    }
    let events = EventStream {
        ownership: state.ownership_events.subscribe(),
        results: state.context.sink.subscribe(),
        state,
    };
    let stream = stream::unfold(events, |mut events| async {
        let event = events.next().await?;
        Some((Ok(event), events))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(HEARTBEAT)))
}

impl EventStream {
    async fn next(&mut self) -> Option<Event> {
        tokio::select! {
            biased;
            () = self.state.closing.cancelled() => None,
            moved = self.ownership.recv() => event("moved", moved.map(|moved| json(&moved))),
            result = self.results.recv() => event("result", result.map(|result| json(&*result))),
        }
    }
}

fn json(event: &impl Serialize) -> String {
    serde_json::to_string(event).unwrap_or_default()
}

fn event(kind: &'static str, received: Result<String, RecvError>) -> Option<Event> {
    match received {
        Ok(data) => Some(Event::default().event(kind).data(data)),
        Err(RecvError::Lagged(_)) => Some(Event::default().event("lagged").data("{}")),
        Err(RecvError::Closed) => None,
    }
}

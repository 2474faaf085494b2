//! `GET /poll/v1/events`: ownership as it moves, everywhere, and results of this node, as server-sent events.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::Sse;
use axum::response::sse::{Event, KeepAlive};
use futures_util::{Stream, stream};
use serde::Serialize;
use service::{Area, Caller, Code, Level, Problem};
use tokio::sync::broadcast::{self, error::RecvError};

use crate::node::{Desk, Moved};
use crate::result::PollResult;

/// How often a quiet stream says that it lives.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Most streams of one node.
const MOST: usize = 1_024;

struct Ears {
    desk: Arc<Desk>,
    moves: broadcast::Receiver<Moved>,
    results: broadcast::Receiver<Arc<PollResult>>,
}

/// `moved` has the target, what happened and the holder; `result` is a result; after `lagged`, look again.
#[utoipa::path(
    get, path = "/poll/v1/events", tag = "polling", operation_id = "pollEvents",
    responses((status = 200, description = "Server-sent events that do not end", body = String, content_type = "text/event-stream"))
)]
pub(super) async fn events(
    State(desk): State<Arc<Desk>>,
    caller: Caller,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    caller.require(Area::Poll, Level::Read)?;
    if desk.moves.receiver_count() >= MOST {
        return Err(
            Problem::new(Code::TOO_MANY, format!("at most {MOST} streams are allowed")).with("limit", MOST)
        );
    }
    let ears = Ears { moves: desk.moves.subscribe(), results: desk.kit.sink.listen(), desk };
    let heard = stream::unfold(ears, |mut ears| async {
        let event = ears.next().await?;
        Some((Ok(event), ears))
    });
    Ok(Sse::new(heard).keep_alive(KeepAlive::new().interval(HEARTBEAT)))
}

impl Ears {
    async fn next(&mut self) -> Option<Event> {
        tokio::select! {
            biased;
            () = self.desk.closing.cancelled() => None,
            moved = self.moves.recv() => event("moved", moved.map(|moved| json(&moved))),
            result = self.results.recv() => event("result", result.map(|result| json(&*result))),
        }
    }
}

fn json(heard: &impl Serialize) -> String {
    serde_json::to_string(heard).unwrap_or_default()
}

fn event(kind: &'static str, heard: Result<String, RecvError>) -> Option<Event> {
    match heard {
        Ok(heard) => Some(Event::default().event(kind).data(heard)),
        Err(RecvError::Lagged(_)) => Some(Event::default().event("lagged").data("{}")),
        Err(RecvError::Closed) => None,
    }
}

//! Polling over HTTP: `/poll/v1/…`.

mod stream;
mod targets;
mod trouble;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use service::{Area, Caller, Json, Level, Problem};

use crate::Picture;
use crate::node::{Desk, Node};

/// The routes under `/poll/v1`. Expects the authentication layer around them.
pub fn routes(node: &Node) -> Router {
    Router::new()
        .route("/poll/v1/nodes", get(nodes))
        .route("/poll/v1/targets", get(targets::list).post(targets::create))
        .route("/poll/v1/targets/{id}", get(targets::one).patch(targets::patch).delete(targets::delete))
        .route("/poll/v1/targets/{id}/pause", post(targets::pause))
        .route("/poll/v1/targets/{id}/resume", post(targets::resume))
        .route("/poll/v1/targets/{id}/results", get(targets::results))
        .route("/poll/v1/targets/{id}/history", get(targets::history))
        .route("/poll/v1/events", get(stream::events))
        .with_state(node.desk.clone())
}

/// Who lives, what they poll, who should, and who is in doubt.
async fn nodes(State(desk): State<Arc<Desk>>, caller: Caller) -> Result<Json<Picture>, Problem> {
    caller.require(Area::Poll, Level::Read)?;
    Ok(Json(Picture::of(&desk)))
}

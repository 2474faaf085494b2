//! Polling over HTTP: `/poll/v1/…`, and its description.

#![allow(unused_qualifications, reason = "utoipa's macros qualify what they generate")]

mod describe;
mod stream;
mod targets;
mod trouble;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use service::{Area, Caller, Json, Level, Problem};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::Picture;
use crate::node::{Desk, Node};

/// The routes under `/poll/v1`, and their description, which needs `ProblemBody` and the common answers of the lease
/// service's. Expects the authentication layer around them.
pub fn routes(node: &Node) -> (Router, utoipa::openapi::OpenApi) {
    OpenApiRouter::with_openapi(describe::Description::openapi())
        .routes(routes!(nodes))
        .routes(routes!(targets::list, targets::create))
        .routes(routes!(targets::one, targets::patch, targets::delete))
        .routes(routes!(targets::pause))
        .routes(routes!(targets::resume))
        .routes(routes!(targets::results))
        .routes(routes!(targets::history))
        .routes(routes!(stream::events))
        .with_state(node.desk.clone())
        .split_for_parts()
}

/// Who lives, what they poll, who should, and who is in doubt.
#[utoipa::path(get, path = "/poll/v1/nodes", tag = "polling", operation_id = "pollNodes", responses((status = 200, body = Picture)))]
async fn nodes(State(desk): State<Arc<Desk>>, caller: Caller) -> Result<Json<Picture>, Problem> {
    caller.require(Area::Poll, Level::Read)?;
    Ok(Json(Picture::of(&desk)))
}

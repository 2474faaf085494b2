//! The polling HTTP API under `/poll/v1` and its OpenAPI description.

#![allow(unused_qualifications, reason = "utoipa's macros qualify what they generate")]

mod error;
mod events;
mod openapi;
mod targets;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use tenure_service::{Area, Caller, Json, Level, Problem};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::ClusterSnapshot;
use crate::node::{Node, NodeState};

/// The routes under `/poll/v1` and their OpenAPI description, which refers to `ProblemBody` and the common responses
/// of the lease service. The caller adds the authentication layer.
pub fn routes(node: &Node) -> (Router, utoipa::openapi::OpenApi) {
    OpenApiRouter::with_openapi(openapi::Description::openapi())
        .routes(routes!(nodes))
        .routes(routes!(targets::list, targets::create))
        .routes(routes!(targets::one, targets::patch, targets::delete))
        .routes(routes!(targets::pause))
        .routes(routes!(targets::resume))
        .routes(routes!(targets::results))
        .routes(routes!(targets::history))
        .routes(routes!(events::events))
        .with_state(node.state.clone())
        .split_for_parts()
}

/// Live nodes, their targets, preferred owners and uncertain targets.
#[utoipa::path(get, path = "/poll/v1/nodes", tag = "polling", operation_id = "pollNodes", responses((status = 200, body = ClusterSnapshot)))]
async fn nodes(
    State(state): State<Arc<NodeState>>,
    caller: Caller,
) -> Result<Json<ClusterSnapshot>, Problem> {
    caller.require(Area::Poll, Level::Read)?;
    Ok(Json(ClusterSnapshot::capture(&state)))
}

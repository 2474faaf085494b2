//! `/health/live` and `/health/ready`, without a token.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::json;

use crate::code::Code;
use crate::problem::Problem;

/// Whether the process can serve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Readiness {
    /// It can; the members describe it.
    Ready(serde_json::Map<String, serde_json::Value>),
    /// It cannot yet, or no longer, and why.
    NotReady(String),
}

/// Live: the process responds. Ready: as `ready` returns; otherwise 503 `UNAVAILABLE` with the reason.
pub fn health_routes(ready: impl Fn() -> Readiness + Send + Sync + 'static) -> Router {
    health_routes_with(|| Ok(()), ready)
}

/// The same with a liveness check that can fail. Also serves `/health` and `/ready`, the older names of both.
pub fn health_routes_with(
    live: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ready: impl Fn() -> Readiness + Send + Sync + 'static,
) -> Router {
    let ready = Arc::new(ready);
    let live = Arc::new(live);
    let alive = move || {
        let live = live.clone();
        async move {
            match live() {
                Ok(()) => Json(json!({ "status": "live" })).into_response(),
                Err(why) => Problem::new(Code::UNAVAILABLE, why).into_response(),
            }
        }
    };
    let is_ready = move || {
        let ready = ready.clone();
        async move { respond(ready()) }
    };
    Router::new()
        .route("/health/live", get(alive.clone()))
        .route("/health", get(alive))
        .route("/health/ready", get(is_ready.clone()))
        .route("/ready", get(is_ready))
}

/// A further readiness route.
pub fn readiness_route(path: &str, ready: impl Fn() -> Readiness + Clone + Send + Sync + 'static) -> Router {
    Router::new().route(path, get(move || async move { respond(ready()) }))
}

fn respond(readiness: Readiness) -> Response {
    match readiness {
        Readiness::Ready(facts) => {
            let mut body = facts;
            body.insert("status".into(), json!("ready"));
            Json(body).into_response()
        }
        Readiness::NotReady(why) => Problem::new(Code::UNAVAILABLE, why).into_response(),
    }
}

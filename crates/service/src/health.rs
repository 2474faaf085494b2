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
    /// It can; the members say what a person wants to know at a glance.
    Ready(serde_json::Map<String, serde_json::Value>),
    /// It cannot yet, or no more, and why.
    NotReady(String),
}

/// Live: the process answers. Ready: `ready` says so; otherwise 503 `UNAVAILABLE` with the reason.
pub fn health_routes(ready: impl Fn() -> Readiness + Send + Sync + 'static) -> Router {
    let ready = Arc::new(ready);
    Router::new()
        .route("/health/live", get(|| async { Json(json!({ "status": "live" })) }))
        .route("/health/ready", get(move || async move { answer(ready()) }))
}

fn answer(readiness: Readiness) -> Response {
    match readiness {
        Readiness::Ready(facts) => {
            let mut body = facts;
            body.insert("status".into(), json!("ready"));
            Json(body).into_response()
        }
        Readiness::NotReady(why) => Problem::new(Code::UNAVAILABLE, why).into_response(),
    }
}

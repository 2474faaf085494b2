//! `GET /v1/leases/history`

use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;
use tenure_lease::Key;
use tenure_service::{Json, ProblemBody, Query};
use utoipa::ToSchema;

use super::body::{KeyQuery, ReignBody};
use super::scope::Reader;
use crate::error::ApiError;
use crate::service::LeaseService;

/// The last reigns of a key, oldest first.
#[derive(Serialize, ToSchema)]
#[schema(title = "History")]
pub(super) struct HistoryBody {
    reigns: Vec<ReignBody>,
}

/// Read who held a key, when, and why each reign ended.
#[utoipa::path(
    get, path = "/v1/leases/history", tag = "leases", operation_id = "history",
    params(KeyQuery),
    responses(
        (status = 200, body = HistoryBody),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn history(
    State(service): State<Arc<LeaseService>>,
    _: Reader,
    Query(query): Query<KeyQuery>,
) -> Result<Json<HistoryBody>, ApiError> {
    let key = Key::new(query.key)?;
    let reigns = service.store.history(&key).await?.iter().map(Into::into).collect();
    Ok(Json(HistoryBody { reigns }))
}

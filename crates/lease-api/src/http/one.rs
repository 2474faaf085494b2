//! `GET /v1/leases/one`

use std::sync::Arc;

use axum::extract::State;
use tenure_lease::Key;
use tenure_service::{Json, ProblemBody, Query};

use super::body::{KeyQuery, StatusBody};
use super::scope::Reader;
use crate::error::ApiError;
use crate::reserved;
use crate::service::LeaseService;

/// Read the state of a key. A key that was never held is free.
#[utoipa::path(
    get, path = "/v1/leases/one", tag = "leases", operation_id = "one",
    params(KeyQuery),
    responses(
        (status = 200, body = StatusBody),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn one(
    State(service): State<Arc<LeaseService>>,
    _: Reader,
    Query(query): Query<KeyQuery>,
) -> Result<Json<StatusBody>, ApiError> {
    let key = Key::new(query.key)?;
    Ok(Json((&reserved::redact(service.store.inspect(&key).await?)).into()))
}

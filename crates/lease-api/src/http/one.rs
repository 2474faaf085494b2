//! `GET /v1/leases/one`

use std::sync::Arc;

use axum::extract::State;
use lease::Key;
use service::{Json, ProblemBody, Query};

use super::gate::Reader;
use super::view::{KeyQuery, StatusBody};
use crate::reserved;
use crate::site::Site;
use crate::trouble::Trouble;

/// Say what a key is doing. A key that nobody ever had is free.
#[utoipa::path(
    get, path = "/v1/leases/one", tag = "leases", operation_id = "one",
    params(KeyQuery),
    responses(
        (status = 200, body = StatusBody),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn one(
    State(site): State<Arc<Site>>,
    _: Reader,
    Query(asked): Query<KeyQuery>,
) -> Result<Json<StatusBody>, Trouble> {
    let key = Key::new(asked.key)?;
    Ok(Json((&reserved::hide(site.store.inspect(&key).await?)).into()))
}

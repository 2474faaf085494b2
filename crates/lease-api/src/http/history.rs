//! `GET /v1/leases/history`

use std::sync::Arc;

use axum::extract::State;
use lease::Key;
use serde::Serialize;
use service::{Json, ProblemBody, Query};
use utoipa::ToSchema;

use super::gate::Reader;
use super::view::{KeyQuery, ReignBody};
use crate::site::Site;
use crate::trouble::Trouble;

/// The last reigns of a key, oldest first.
#[derive(Serialize, ToSchema)]
#[schema(title = "History")]
pub(super) struct HistoryBody {
    reigns: Vec<ReignBody>,
}

/// Say who had a key, when, and why each reign ended.
#[utoipa::path(
    get, path = "/v1/leases/history", tag = "leases", operation_id = "history",
    params(KeyQuery),
    responses(
        (status = 200, body = HistoryBody),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn history(
    State(site): State<Arc<Site>>,
    _: Reader,
    Query(asked): Query<KeyQuery>,
) -> Result<Json<HistoryBody>, Trouble> {
    let key = Key::new(asked.key)?;
    let reigns = site.store.history(&key).await?.iter().map(Into::into).collect();
    Ok(Json(HistoryBody { reigns }))
}

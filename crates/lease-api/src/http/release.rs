//! `POST /v1/leases/release`

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use tenure_lease::{Generation, Holder, Key, Release, Released, Token};
use tenure_service::{Json, ProblemBody};
use utoipa::ToSchema;

use super::scope::Writer;
use crate::error::ApiError;
use crate::reserved;
use crate::service::LeaseService;

/// A lease to release.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "Release", example = json!({
    "key": "tuner/3", "token": "q83vEjRWeJASNFZ4kBI0Vg", "generation": "1782579200000042"
}))]
pub(super) struct ReleaseBody {
    #[schema(min_length = 1, max_length = 256, pattern = "^[!-~]+$")]
    key: String,
    #[schema(pattern = "^[A-Za-z0-9_-]{22,128}$")]
    token: String,
    /// Any generation of the token if absent.
    #[schema(pattern = "^[1-9][0-9]{0,15}$")]
    generation: Option<String>,
    /// The successor: granted at once if it waits, else reserved for two seconds.
    #[schema(min_length = 1, max_length = 128, pattern = "^[!-~]+$")]
    to: Option<String>,
}

/// The outcome of a release.
#[derive(Serialize, ToSchema)]
#[schema(title = "Released", example = json!({"outcome": "released"}))]
pub(super) struct OutcomeBody {
    /// released, or not_held if the token held nothing.
    outcome: &'static str,
}

/// Release a key and grant it to the next waiter.
#[utoipa::path(
    post, path = "/v1/leases/release", tag = "leases", operation_id = "release",
    request_body = ReleaseBody,
    responses(
        (status = 200, body = OutcomeBody),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn release(
    State(service): State<Arc<LeaseService>>,
    _: Writer,
    Json(body): Json<ReleaseBody>,
) -> Result<Json<OutcomeBody>, ApiError> {
    let key = Key::new(body.key)?;
    reserved::check(&key)?;
    let release = Release {
        key,
        token: Token::parse(&body.token)?,
        generation: body.generation.as_deref().map(Generation::parse).transpose()?,
        to: body.to.map(Holder::new).transpose()?,
    };
    let outcome = match service.store.release(release).await? {
        Released::Released => "released",
        Released::NotHeld => "not_held",
    };
    Ok(Json(OutcomeBody { outcome }))
}

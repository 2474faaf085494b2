//! `POST /v1/leases/revoke`

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use tenure_lease::{Error, Generation, Key, Revoke, RevokeReason, Revoked, limits};
use tenure_service::{Code, Json, Problem, ProblemBody};
use utoipa::ToSchema;

use super::body::{format_generation, millis_rounded_up};
use super::scope::Admin;
use crate::error::ApiError;
use crate::service::{LeaseService, OWNERSHIP_TARGET};

/// A lease to revoke.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "Revoke", example = json!({
    "key": "tuner/3", "generation": "1782579200000042", "reason": "node-a does not respond"
}))]
pub(super) struct RevokeBody {
    #[schema(min_length = 1, max_length = 256, pattern = "^[!-~]+$")]
    key: String,
    /// The generation to end; any other is stale.
    #[schema(pattern = "^[1-9][0-9]{0,15}$")]
    generation: String,
    /// Why, for the log; one line of at most 1024 bytes.
    #[schema(max_length = 1024)]
    reason: Option<String>,
    /// How long the key cannot be acquired; the rest of the TTL if absent.
    #[schema(maximum = 86_400_000)]
    delay_ms: Option<u64>,
}

/// How long the key cannot be acquired.
#[derive(Serialize, ToSchema)]
#[schema(title = "Revoked", example = json!({"delay_ms": 12040}))]
pub(super) struct DelayBody {
    delay_ms: u64,
}

/// End a reign on behalf of an operator.
#[utoipa::path(
    post, path = "/v1/leases/revoke", tag = "leases", operation_id = "revoke",
    request_body = RevokeBody,
    responses(
        (status = 200, body = DelayBody),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn revoke(
    State(service): State<Arc<LeaseService>>,
    Admin(caller): Admin,
    Json(body): Json<RevokeBody>,
) -> Result<Json<DelayBody>, ApiError> {
    let (key, generation) = (Key::new(body.key)?, Generation::parse(&body.generation)?);
    let reason = RevokeReason::new(body.reason.unwrap_or_default())?;
    if let Some(ms) = body.delay_ms.filter(|ms| *ms > limits::DELAY_MS) {
        let why = format!("{ms} ms is too long, at most {} are allowed", limits::DELAY_MS);
        return Err(Error::invalid("delay_ms", why).into());
    }
    let delay = body.delay_ms.map(Duration::from_millis);
    let outcome =
        service.store.revoke(Revoke { key: key.clone(), generation, delay, reason: reason.clone() }).await?;
    tracing::info!(
        target: OWNERSHIP_TARGET, %key, %generation, by = caller.name, reason = reason.as_str(), ?outcome, "revoke"
    );
    match outcome {
        Revoked::Revoked { delay } => Ok(Json(DelayBody { delay_ms: millis_rounded_up(delay) })),
        Revoked::Stale { current } => {
            let detail = match current {
                Some(current) => format!("{key} is held under generation {current}; nothing changed"),
                None => format!("{key} is not held; nothing changed"),
            };
            Err(Problem::new(Code::STALE_GENERATION, detail)
                .with("generation", current.map(format_generation))
                .into())
        }
    }
}

//! `POST /v1/leases/revoke`

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use lease::{Error, Generation, Key, Motive, Revoke, Revoked, limits};
use serde::{Deserialize, Serialize};
use service::{Code, Json, Problem, ProblemBody};
use utoipa::ToSchema;

use super::gate::Admin;
use super::view::{at_most, text};
use crate::site::{OWNERSHIP, Site};
use crate::trouble::Trouble;

/// A lease to end by force.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "Revoke", example = json!({
    "key": "tuner/3", "generation": "1782579200000042", "reason": "node-a does not answer"
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
    /// How long nobody may have the key; absent is what was left of the TTL.
    #[schema(maximum = 86_400_000)]
    delay_ms: Option<u64>,
}

/// How long nobody may have the key.
#[derive(Serialize, ToSchema)]
#[schema(title = "Revoked", example = json!({"delay_ms": 12040}))]
pub(super) struct DelayBody {
    delay_ms: u64,
}

/// End a reign by force.
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
    State(site): State<Arc<Site>>,
    Admin(caller): Admin,
    Json(body): Json<RevokeBody>,
) -> Result<Json<DelayBody>, Trouble> {
    let (key, generation) = (Key::new(body.key)?, Generation::parse(&body.generation)?);
    let reason = Motive::new(body.reason.unwrap_or_default())?;
    if let Some(ms) = body.delay_ms.filter(|ms| *ms > limits::DELAY_MS) {
        let why = format!("{ms} ms is too long, at most {} are allowed", limits::DELAY_MS);
        return Err(Error::invalid("delay_ms", why).into());
    }
    let delay = body.delay_ms.map(Duration::from_millis);
    let answer =
        site.store.revoke(Revoke { key: key.clone(), generation, delay, reason: reason.clone() }).await?;
    tracing::info!(
        target: OWNERSHIP, %key, %generation, by = caller.name, reason = reason.as_str(), outcome = ?answer, "revoke"
    );
    match answer {
        Revoked::Revoked { delay } => Ok(Json(DelayBody { delay_ms: at_most(delay) })),
        Revoked::Stale { current } => {
            let detail = match current {
                Some(current) => format!("{key} is held under generation {current}; nothing changed"),
                None => format!("{key} is not held; nothing changed"),
            };
            Err(Problem::new(Code::STALE_GENERATION, detail).with("generation", current.map(text)).into())
        }
    }
}

//! `POST /v1/leases/renew`

use std::sync::Arc;

use axum::extract::State;
use lease::{Generation, Key, Refusal, Renewal, Renewed, Token, limits};
use serde::{Deserialize, Serialize};
use service::{Json, ProblemBody};
use utoipa::ToSchema;

use super::gate::Writer;
use super::view::at_least;
use crate::reserved;
use crate::site::Site;
use crate::trouble::Trouble;

/// Leases to keep.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "Renew", example = json!({
    "items": [{"key": "tuner/3", "token": "q83vEjRWeJASNFZ4kBI0Vg", "generation": "1782579200000042"}]
}))]
pub(super) struct RenewBody {
    /// Which.
    #[schema(max_items = 1000)]
    items: Vec<ItemBody>,
    /// The TTL from now on; absent keeps the one granted.
    #[schema(minimum = 1, maximum = 86_400_000)]
    ttl_ms: Option<u64>,
}

/// One lease to keep.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "Renewal")]
pub(super) struct ItemBody {
    #[schema(min_length = 1, max_length = 256, pattern = "^[!-~]+$")]
    key: String,
    #[schema(pattern = "^[A-Za-z0-9_-]{22,128}$")]
    token: String,
    #[schema(pattern = "^[1-9][0-9]{0,15}$")]
    generation: String,
}

/// One answer per item, in order.
#[derive(Serialize, ToSchema)]
#[schema(title = "Renewed", example = json!({
    "results": [{"key": "tuner/3", "outcome": "renewed", "remaining_ms": 15000}]
}))]
pub(super) struct ResultsBody {
    results: Vec<ResultBody>,
}

/// What became of one lease.
#[derive(Serialize, ToSchema)]
#[schema(title = "Result")]
pub(super) struct ResultBody {
    key: String,
    /// renewed or lost.
    outcome: &'static str,
    /// What is left of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_ms: Option<u64>,
    /// Why it is lost: released, transferred, expired, revoked, superseded, wiped, holder_died or gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// Prolong up to 1,000 reigns.
#[utoipa::path(
    post, path = "/v1/leases/renew", tag = "leases", operation_id = "renew",
    request_body = RenewBody,
    responses(
        (status = 200, body = ResultsBody),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, body = ProblemBody, content_type = "application/problem+json"),
        (status = 429, body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn renew(
    State(site): State<Arc<Site>>,
    _: Writer,
    Json(body): Json<RenewBody>,
) -> Result<Json<ResultsBody>, Trouble> {
    if body.items.len() > limits::BATCH {
        let refusal = Refusal::TooMany { what: "leases in one renewal", limit: limits::BATCH };
        return Err(lease::Error::from(refusal).into());
    }
    let ttl = body.ttl_ms.map(|ms| site.ttl(ms)).transpose()?;
    let mut items = Vec::with_capacity(body.items.len());
    for item in body.items {
        let key = Key::new(item.key)?;
        reserved::refuse(&key)?;
        let (token, generation) = (Token::parse(&item.token)?, Generation::parse(&item.generation)?);
        items.push(Renewal { key, token, generation, ttl });
    }
    let answers = site.store.renew(&items).await?;
    let result = |(item, answer): (Renewal, Renewed)| {
        let key = item.key.as_str().into();
        match answer {
            Renewed::Renewed { remaining } => {
                let remaining_ms = Some(at_least(remaining));
                ResultBody { key, outcome: "renewed", remaining_ms, reason: None }
            }
            Renewed::Lost(end) => {
                ResultBody { key, outcome: "lost", remaining_ms: None, reason: Some(end.as_str()) }
            }
        }
    };
    Ok(Json(ResultsBody { results: items.into_iter().zip(answers).map(result).collect() }))
}

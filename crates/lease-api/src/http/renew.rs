//! `POST /v1/leases/renew`

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use tenure_lease::{Generation, Key, Refusal, Renewal, Renewed, Token, limits};
use tenure_service::{Json, ProblemBody};
use utoipa::ToSchema;

use super::body::millis_rounded_down;
use super::scope::Writer;
use crate::error::ApiError;
use crate::problem::error_code;
use crate::reserved;
use crate::service::LeaseService;

/// Leases to renew.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "Renew", example = json!({
    "items": [{"key": "tuner/3", "token": "q83vEjRWeJASNFZ4kBI0Vg", "generation": "1782579200000042"}]
}))]
pub(super) struct RenewBody {
    /// The leases.
    #[schema(max_items = 1000)]
    items: Vec<ItemBody>,
    /// The new TTL; the granted one if absent.
    #[schema(minimum = 1, maximum = 86_400_000)]
    ttl_ms: Option<u64>,
}

/// One lease to renew.
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

/// One result per item, in order.
#[derive(Serialize, ToSchema)]
#[schema(title = "Renewed", example = json!({
    "results": [{"key": "tuner/3", "outcome": "renewed", "remaining_ms": 15000}]
}))]
pub(super) struct ResultsBody {
    results: Vec<ResultBody>,
}

/// The result for one lease.
#[derive(Serialize, ToSchema)]
#[schema(title = "Result")]
pub(super) struct ResultBody {
    key: String,
    /// renewed, lost, or failed: then the lease lasts as long as before, at least.
    outcome: &'static str,
    /// The time left.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_ms: Option<u64>,
    /// Why it was lost: released, transferred, expired, revoked, superseded, wiped, holder_died or gone. Why it failed:
    /// the code of the problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// Renew up to 1,000 leases.
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
    State(service): State<Arc<LeaseService>>,
    _: Writer,
    Json(body): Json<RenewBody>,
) -> Result<Json<ResultsBody>, ApiError> {
    if body.items.len() > limits::BATCH {
        let refusal = Refusal::TooMany { what: "leases in one renewal", limit: limits::BATCH };
        return Err(tenure_lease::Error::from(refusal).into());
    }
    let ttl = body.ttl_ms.map(|ms| service.parse_ttl(ms)).transpose()?;
    let mut items = Vec::with_capacity(body.items.len());
    for item in body.items {
        let key = Key::new(item.key)?;
        reserved::check(&key)?;
        let (token, generation) = (Token::parse(&item.token)?, Generation::parse(&item.generation)?);
        items.push(Renewal { key, token, generation, ttl });
    }
    let mut results = service.store.renew(&items).await?;
    // A failure of every item is a failure of the request.
    if results.iter().all(Result::is_err)
        && let Some(Err(error)) = results.pop()
    {
        return Err(error.into());
    }
    let result = |(item, renewed): (Renewal, Result<Renewed, tenure_lease::Error>)| {
        let key = item.key.as_str().into();
        match renewed {
            Ok(Renewed::Renewed { remaining }) => {
                let remaining_ms = Some(millis_rounded_down(remaining));
                ResultBody { key, outcome: "renewed", remaining_ms, reason: None }
            }
            Ok(Renewed::Lost(end)) => {
                ResultBody { key, outcome: "lost", remaining_ms: None, reason: Some(end.as_str()) }
            }
            Err(error) => {
                let reason = Some(error_code(&error).as_str());
                ResultBody { key, outcome: "failed", remaining_ms: None, reason }
            }
        }
    };
    Ok(Json(ResultsBody { results: items.into_iter().zip(results).map(result).collect() }))
}

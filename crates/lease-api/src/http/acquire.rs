//! `POST /v1/leases/acquire`

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use lease::{Acquired, Busy, Claim, Error, Grant, Holder, Key, Meta, Reason, Token, limits};
use lease_store::OsEntropy;
use serde::{Deserialize, Serialize};
use service::{Code, Json, Problem, ProblemBody};
use utoipa::ToSchema;

use super::describe::BusyBody;
use super::gate::Writer;
use super::view::{at_most, text};
use crate::reserved;
use crate::site::Site;
use crate::trouble::Trouble;

/// A claim.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "Acquire", example = json!({
    "key": "tuner/3", "holder": "node-a", "ttl_ms": 15000, "wait_ms": 60000
}))]
pub(super) struct AcquireBody {
    /// What to own.
    #[schema(min_length = 1, max_length = 256, pattern = "^[!-~]+$")]
    key: String,
    /// Under which name.
    #[schema(min_length = 1, max_length = 128, pattern = "^[!-~]+$")]
    holder: String,
    /// The secret of the reign, made by the client; the same token again gives the same lease. Made by the
    /// server when absent.
    #[schema(pattern = "^[A-Za-z0-9_-]{22,128}$")]
    token: Option<String>,
    /// For how long without renewal.
    #[schema(minimum = 1, maximum = 86_400_000)]
    ttl_ms: u64,
    /// How long to wait in line when the key is busy. Closing the connection leaves the line.
    #[schema(maximum = 3_600_000)]
    wait_ms: Option<u64>,
    /// What to tell others; at most 1024 bytes.
    #[schema(max_length = 1024)]
    meta: Option<String>,
}

/// A grant.
#[derive(Serialize, ToSchema)]
#[schema(title = "Granted", example = json!({
    "key": "tuner/3", "holder": "node-a", "token": "q83vEjRWeJASNFZ4kBI0Vg", "generation": "1782579200000042",
    "ttl_ms": 15000, "lease_id": "cl_9f86d081884c7d659a2feaa0"
}))]
pub(super) struct GrantBody {
    key: String,
    holder: String,
    /// The secret of this reign: renew, release and fence with it.
    token: String,
    generation: String,
    ttl_ms: u64,
    /// The public handle of this reign.
    lease_id: String,
    /// True when the claim waited: the TTL has been running for an unknown time, so renew once before acting.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    parked: bool,
}

/// Ask for a key.
#[utoipa::path(
    post, path = "/v1/leases/acquire", tag = "leases", operation_id = "acquire",
    request_body = AcquireBody,
    responses(
        (status = 200, body = GrantBody),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, body = BusyBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn acquire(
    State(site): State<Arc<Site>>,
    _: Writer,
    Json(body): Json<AcquireBody>,
) -> Result<Json<GrantBody>, Trouble> {
    let claim = claim(&site, body)?;
    let (key, token) = (claim.key.clone(), claim.token.clone());
    match site.acquire(claim).await? {
        Acquired::Granted(Grant { lease, parked }) => Ok(Json(GrantBody {
            lease_id: lease.id().to_string(),
            key: lease.key.as_str().into(),
            holder: lease.holder.as_str().into(),
            token: token.reveal().into(),
            generation: text(lease.generation),
            ttl_ms: lease.ttl.as_millis(),
            parked,
        })),
        Acquired::Busy(busy) => Err(busy_problem(&key, &busy).into()),
    }
}

fn claim(site: &Site, body: AcquireBody) -> Result<Claim, Trouble> {
    let key = Key::new(body.key)?;
    reserved::refuse(&key)?;
    let holder = Holder::new(body.holder)?;
    let token = match body.token {
        Some(token) => Token::parse(&token)?,
        None => Token::random(&OsEntropy),
    };
    let mut claim = Claim::new(key, holder, token, site.ttl(body.ttl_ms)?).remote();
    claim.meta = Meta::new(body.meta.unwrap_or_default())?;
    claim.wait = match body.wait_ms.unwrap_or_default() {
        0 => None,
        ms if ms <= limits::WAIT_MS => Some(Duration::from_millis(ms)),
        ms => {
            let why = format!("{ms} ms is too long, at most {} are allowed", limits::WAIT_MS);
            return Err(Error::invalid("wait_ms", why).into());
        }
    };
    Ok(claim)
}

fn busy_problem(key: &Key, busy: &Busy) -> Problem {
    let holder = busy.holder.as_ref().map_or("somebody", Holder::as_str);
    let detail = match busy.reason {
        Reason::Held => format!("{key} is held by {holder}"),
        Reason::Delayed => format!("{key} was revoked, and nobody may have it yet"),
        Reason::Reserved => format!("{key} is reserved for {holder}"),
        Reason::Queued => format!("others wait in line for {key} and come first"),
        Reason::Quarantine => format!(
            "{key} is not granted yet: the server of the store is new or was restarted, and a holder that it \
             forgot may still be alive. It passes by itself; for a server that is known to be new, \
             quarantine_ms=0 in the address of the store switches it off"
        ),
        Reason::Foreign => format!("{key} carries something that is not a lease: {holder}"),
        Reason::NotThatGeneration => format!("{key} has another generation than the one named"),
    };
    let problem = Problem::new(Code::BUSY, detail)
        .with("holder", busy.holder.as_ref().map(Holder::as_str))
        .with("generation", busy.generation.map_or_else(|| "0".into(), text))
        .with("remaining_ms", busy.remaining.map(at_most))
        .with("position", busy.position)
        .with("reason", busy.reason.as_str());
    if busy.reason == Reason::Reserved { problem.with("reserved", true) } else { problem }
}

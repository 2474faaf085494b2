//! `POST /api/v3/sessions/{id}/heartbeat`

use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;
use service::{Code, Problem, ProblemBody};
use utoipa::ToSchema;

use crate::gate::{Id, Reader};
use crate::sessions::{Fresh, fresh};
use crate::site::{Site, bounded};
use crate::trouble::Trouble;
use crate::view::moment;

/// Somebody was seen watching.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(title = "Heartbeat", example = json!({
    "sessionId": "0198c0de-77aa-7bbb-8ccc-ddddeeeeffff", "acknowledged": true,
    "leaseExpiresAt": "2026-11-15T20:02:03.000Z"
}))]
pub(crate) struct BeatBody {
    /// The session.
    session_id: String,
    /// Always true.
    acknowledged: bool,
    /// When it ends unless somebody watches.
    lease_expires_at: String,
}

/// Say that somebody watches. Within one interval nothing is extended twice, and nothing is ever shortened.
#[utoipa::path(
    post, path = "/api/v3/sessions/{id}/heartbeat", tag = "sessions", operation_id = "heartbeat",
    params(("id" = String, Path, description = "The session", max_length = 64, pattern = "^[A-Za-z0-9_-]+$")),
    responses(
        (status = 200, body = BeatBody),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "There is none"),
        (status = 410, body = ProblemBody, content_type = "application/problem+json", description = "It is over, or its time ran out"),
    )
)]
pub(crate) async fn beat(
    State(site): State<Arc<Site>>,
    _: Reader,
    Id(id): Id,
) -> Result<Fresh<BeatBody>, Trouble> {
    let session = site.live(&id).await?;
    let (now, mut wanted) = (site.now(), site.wanted(&session).await?);
    if now >= site.expiry(wanted) {
        let ttl = site.options.session_lease_ttl.as_secs();
        let problem = Problem::new(Code::SESSION_EXPIRED, format!("nobody watched for longer than {ttl} s"));
        return Err(problem.with("session", id.as_str()).into());
    }
    if now.since(wanted) >= site.options.heartbeat_interval {
        bounded(site.ports.log.touch(&id, now)).await?;
        wanted = now;
    }
    Ok(fresh(BeatBody {
        session_id: id.as_str().to_owned(),
        acknowledged: true,
        lease_expires_at: moment(site.expiry(wanted)),
    }))
}

//! `POST /api/v3/sessions/{id}/heartbeat`

use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;
use tenure_service::{Code, Problem, ProblemBody};
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::extract::{PathId, ReadAccess};
use crate::sessions::{NoStore, no_store};
use crate::state::{ApiState, bounded};
use crate::view::format_time;

/// A heartbeat was recorded.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(title = "Heartbeat", example = json!({
    "sessionId": "0198c0de-77aa-7bbb-8ccc-ddddeeeeffff", "acknowledged": true,
    "leaseExpiresAt": "2026-11-15T20:02:03.000Z"
}))]
pub(crate) struct HeartbeatBody {
    /// The session.
    session_id: String,
    /// Always true.
    acknowledged: bool,
    /// When the session expires unless a viewer is seen.
    lease_expires_at: String,
}

/// Report that a viewer is watching. Repeats within one interval have no effect, and the expiry never moves back.
#[utoipa::path(
    post, path = "/api/v3/sessions/{id}/heartbeat", tag = "sessions", operation_id = "heartbeat",
    params(("id" = String, Path, description = "The session", max_length = 64, pattern = "^[A-Za-z0-9_-]+$")),
    responses(
        (status = 200, body = HeartbeatBody),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "The session does not exist"),
        (status = 410, body = ProblemBody, content_type = "application/problem+json", description = "The session has ended or expired"),
    )
)]
pub(crate) async fn heartbeat(
    State(api): State<Arc<ApiState>>,
    _: ReadAccess,
    PathId(id): PathId,
) -> Result<NoStore<HeartbeatBody>, ApiError> {
    let session = api.get_active(&id).await?;
    let (now, mut wanted) = (api.now(), api.last_wanted(&session).await?);
    if now >= api.expiry(wanted) {
        let ttl = api.options.session_lease_ttl.as_secs();
        let problem = Problem::new(Code::SESSION_EXPIRED, format!("no viewer was seen for {ttl} s"));
        return Err(problem.with("session", id.as_str()).into());
    }
    if now.since(wanted) >= api.options.heartbeat_interval {
        bounded(api.ports.log.touch(&id, now)).await?;
        wanted = now;
    }
    Ok(no_store(HeartbeatBody {
        session_id: id.as_str().to_owned(),
        acknowledged: true,
        lease_expires_at: format_time(api.expiry(wanted)),
    }))
}

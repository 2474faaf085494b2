//! `POST /api/v3/intents`

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::Serialize;
use service::{Json, Problem, ProblemBody, request_id};
use session::{CorrelationId, Intent, SessionId};
use utoipa::ToSchema;

use crate::gate::Writer;
use crate::site::Site;
use crate::trouble::Trouble;
use crate::wish::IntentBody;
use crate::{start, stop};

/// What became of an intent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Done {
    pub(crate) session: SessionId,
    /// Whether it was so before.
    pub(crate) replay: bool,
    pub(crate) correlation: CorrelationId,
}

/// The intent was taken. What becomes of it, the session tells.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(title = "Taken", example = json!({
    "sessionId": "0198c0de-77aa-7bbb-8ccc-ddddeeeeffff", "requestId": "8f14e45fceea167a5a36dedd4bea2543",
    "status": "accepted", "correlationId": "0198c0de-77aa-7bbb-8ccc-ddddeeee0000"
}))]
pub(crate) struct TakenBody {
    /// The session.
    session_id: String,
    /// The id of this request, as in the header `x-request-id`.
    request_id: String,
    /// `accepted`, or `idempotent_replay` when the same was wished before and still stands.
    status: &'static str,
    /// What the client calls the request; of a replay, what the first one was called.
    correlation_id: String,
}

/// Start watching, or stop. The same start is the same session for as long as it lives.
#[utoipa::path(
    post, path = "/api/v3/intents", tag = "sessions", operation_id = "intend",
    request_body = IntentBody,
    responses(
        (status = 202, body = TakenBody),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "A stop names a session that is not there"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "Phase 1 only: somebody has the channel"),
    )
)]
pub(crate) async fn intend(
    State(site): State<Arc<Site>>,
    _: Writer,
    body: Result<Json<IntentBody>, Problem>,
) -> Result<Response, Trouble> {
    let Json(body) = body.map_err(Trouble::input)?;
    let done = match body.read(&site.options.profiles)? {
        Intent::Start(wish) => start::start(&site, wish).await?,
        Intent::Stop { session, correlation } => stop::stop(&site, session, correlation).await?,
    };
    let place = format!("/api/v3/sessions/{}", done.session);
    let answer = TakenBody {
        session_id: done.session.as_str().to_owned(),
        request_id: request_id().unwrap_or_default(),
        status: if done.replay { "idempotent_replay" } else { "accepted" },
        correlation_id: done.correlation.as_str().to_owned(),
    };
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, place)], Json(answer)).into_response())
}

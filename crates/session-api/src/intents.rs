//! `POST /api/v3/intents`

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::Serialize;
use tenure_service::{Json, Problem, ProblemBody, request_id};
use tenure_session::{CorrelationId, Intent, SessionId};
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::extract::WriteAccess;
use crate::intent_body::IntentBody;
use crate::state::ApiState;
use crate::{start, stop};

/// The outcome of an intent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct IntentOutcome {
    pub(crate) session: SessionId,
    /// Whether an earlier intent had the same effect.
    pub(crate) replay: bool,
    pub(crate) correlation: CorrelationId,
}

/// The intent was accepted. The session reports its progress.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(title = "IntentAccepted", example = json!({
    "sessionId": "0198c0de-77aa-7bbb-8ccc-ddddeeeeffff", "requestId": "8f14e45fceea167a5a36dedd4bea2543",
    "status": "accepted", "correlationId": "0198c0de-77aa-7bbb-8ccc-ddddeeee0000"
}))]
pub(crate) struct IntentAcceptedBody {
    /// The session.
    session_id: String,
    /// The id of this request, as in the header `x-request-id`.
    request_id: String,
    /// `accepted`, or `idempotent_replay` when an identical intent is already in effect.
    status: &'static str,
    /// The client's name for the request; for a replay, that of the first request.
    correlation_id: String,
}

/// Start or stop a session. Identical starts share one session until it ends.
#[utoipa::path(
    post, path = "/api/v3/intents", tag = "sessions", operation_id = "submitIntent",
    request_body = IntentBody,
    responses(
        (status = 202, body = IntentAcceptedBody),
        (status = 404, body = ProblemBody, content_type = "application/problem+json", description = "The session to stop does not exist"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json", description = "Phase 1 only: the channel is leased"),
    )
)]
pub(crate) async fn submit_intent(
    State(api): State<Arc<ApiState>>,
    _: WriteAccess,
    body: Result<Json<IntentBody>, Problem>,
) -> Result<Response, ApiError> {
    let Json(body) = body.map_err(ApiError::invalid_input)?;
    let outcome = match body.into_intent(&api.options.profiles)? {
        Intent::Start(intent) => start::start(&api, intent).await?,
        Intent::Stop { session, correlation } => stop::stop(&api, session, correlation).await?,
    };
    let location = format!("/api/v3/sessions/{}", outcome.session);
    let accepted = IntentAcceptedBody {
        session_id: outcome.session.as_str().to_owned(),
        request_id: request_id().unwrap_or_default(),
        status: if outcome.replay { "idempotent_replay" } else { "accepted" },
        correlation_id: outcome.correlation.as_str().to_owned(),
    };
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, location)], Json(accepted)).into_response())
}

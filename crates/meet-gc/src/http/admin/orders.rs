//! Orders of operators: move, end, drain and undrain.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use tenure_meet_wire::internal::DrainReason;
use tenure_service::{Json, Path, Problem};
use utoipa::ToSchema;

use super::Operator;
use crate::error::ApiError;
use crate::gc::GcState;

/// Where a meeting moves.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "MoveMeeting", example = json!({ "to": "mc-2" }))]
pub(super) struct MoveRequest {
    /// The controller that takes it. If absent, the best one is selected.
    #[schema(max_length = 64)]
    to: Option<String>,
}

/// An accepted order. Its progress is in the list of moves and in the drains of nodes.
#[derive(Serialize, ToSchema)]
#[schema(title = "MoveAccepted")]
pub(super) struct MoveAccepted {
    meeting_id: String,
    from_mc: String,
    to_mc: String,
}

/// A meeting that was ended.
#[derive(Serialize, ToSchema)]
#[schema(title = "MeetingEnded")]
pub(super) struct Ended {
    meeting_id: String,
    /// Whether a controller ran it. If not, it is only closed until its host returns.
    running: bool,
}

/// How a controller drains.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "DrainController", example = json!({ "reason": "maintenance", "deadline_ms": 60000 }))]
pub(super) struct DrainRequest {
    reason: Option<Reason>,
    /// How long it may take, at most an hour. The controller's own setting if absent.
    #[schema(minimum = 1000, maximum = 3600000)]
    deadline_ms: Option<u64>,
}

/// Why a controller drains.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(title = "DrainReason")]
pub(super) enum Reason {
    Maintenance,
    ScaleDown,
    Unhealthy,
    VersionUpgrade,
}

/// The controller that drains or accepts meetings again.
#[derive(Serialize, ToSchema)]
#[schema(title = "ControllerOrder")]
pub(super) struct ControllerOrder {
    mc_id: String,
    draining: bool,
}

/// Moves a meeting to another controller. The answer comes when its owner accepted the order.
#[utoipa::path(
    post, path = "/api/v1/admin/meetings/{id}/move", tag = "meetings", operation_id = "moveMeeting",
    params(("id" = String, Path, description = "The id of the meeting")),
    request_body = MoveRequest, responses((status = 200, body = MoveAccepted))
)]
pub(super) async fn move_meeting(
    State(state): State<Arc<GcState>>,
    operator: Operator,
    Path(id): Path<String>,
    Json(request): Json<MoveRequest>,
) -> Result<Json<MoveAccepted>, Problem> {
    let (from_mc, to_mc) = state.order_operator_move(&id, request.to.as_deref()).await?;
    tracing::info!(meeting = id, from_mc, to_mc, operator = operator.name, "move ordered");
    Ok(Json(MoveAccepted { meeting_id: id, from_mc, to_mc }))
}

/// Ends a meeting for all participants, as its host can. It stays closed until its host returns.
#[utoipa::path(
    post, path = "/api/v1/admin/meetings/{id}/end", tag = "meetings", operation_id = "endMeeting",
    params(("id" = String, Path, description = "The id of the meeting")),
    responses((status = 200, body = Ended))
)]
pub(super) async fn end_meeting(
    State(state): State<Arc<GcState>>,
    operator: Operator,
    Path(id): Path<String>,
) -> Result<Json<Ended>, Problem> {
    let running = state.order_end(&id).await?;
    tracing::info!(meeting = id, running, operator = operator.name, "meeting ended by an operator");
    Ok(Json(Ended { meeting_id: id, running }))
}

/// Makes a controller move all its meetings away. Its process ends when none is left.
#[utoipa::path(
    post, path = "/api/v1/admin/controllers/{id}/drain", tag = "meetings", operation_id = "drainController",
    params(("id" = String, Path, description = "The id of the controller")),
    request_body = DrainRequest, responses((status = 200, body = ControllerOrder))
)]
pub(super) async fn drain(
    State(state): State<Arc<GcState>>,
    operator: Operator,
    Path(id): Path<String>,
    Json(request): Json<DrainRequest>,
) -> Result<Json<ControllerOrder>, Problem> {
    let reason = match request.reason {
        None => DrainReason::Unspecified,
        Some(Reason::Maintenance) => DrainReason::Maintenance,
        Some(Reason::ScaleDown) => DrainReason::ScaleDown,
        Some(Reason::Unhealthy) => DrainReason::Unhealthy,
        Some(Reason::VersionUpgrade) => DrainReason::VersionUpgrade,
    };
    let deadline = request.deadline_ms.map(Duration::from_millis);
    let bounds = Duration::from_secs(1)..=Duration::from_secs(3_600);
    if deadline.is_some_and(|deadline| !bounds.contains(&deadline)) {
        return Err(ApiError::BadRequest("deadline_ms: expected 1000 to 3600000".to_owned()).into());
    }
    state.order_drain(&id, reason, deadline).await?;
    tracing::info!(mc = id, ?reason, operator = operator.name, "drain ordered");
    Ok(Json(ControllerOrder { mc_id: id, draining: true }))
}

/// Cancels the drain of a controller while it has meetings. Meetings that moved stay where they are.
#[utoipa::path(
    post, path = "/api/v1/admin/controllers/{id}/undrain", tag = "meetings", operation_id = "undrainController",
    params(("id" = String, Path, description = "The id of the controller")),
    responses((status = 200, body = ControllerOrder))
)]
pub(super) async fn undrain(
    State(state): State<Arc<GcState>>,
    operator: Operator,
    Path(id): Path<String>,
) -> Result<Json<ControllerOrder>, Problem> {
    state.order_undrain(&id).await?;
    tracing::info!(mc = id, operator = operator.name, "drain cancelled");
    Ok(Json(ControllerOrder { mc_id: id, draining: false }))
}

//! Reports of unreachable controllers.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use tenure_meet_wire::internal::UnreachableReason;
use utoipa::ToSchema;

use super::Body;
use crate::error::ApiError;
use crate::gc::GcState;
use crate::identity::bearer;
use crate::reports::Report;

/// A report of an unreachable controller.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "UnreachableReport", example = json!({ "mc_id": "mc-1", "reason": "timeout" }))]
pub(super) struct ReportBody {
    /// The id from the join response.
    #[schema(max_length = 128)]
    mc_id: String,
    /// The observed failure. Unspecified if absent.
    reason: Option<Reason>,
}

/// The failure that a client observed.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(title = "UnreachableReason")]
pub(super) enum Reason {
    Unspecified,
    ConnectionRefused,
    Timeout,
    TlsError,
}

/// The current tally.
#[derive(Serialize, ToSchema)]
#[schema(title = "UnreachableTally")]
pub(super) struct TallyBody {
    /// Users that reported within the last minute.
    reports: u32,
    /// Reports needed.
    quorum: u32,
    /// Whether the meeting is being moved to another controller.
    failover_started: bool,
}

/// Reports that the controller of a meeting is unreachable. The bearer is the reporter's meeting token. Each user counts once.
#[utoipa::path(
    post, path = "/api/v1/meetings/{id}/unreachable", tag = "meetings", operation_id = "reportUnreachable",
    params(("id" = String, Path, description = "The id of the meeting")),
    request_body = ReportBody, responses((status = 200, body = TallyBody))
)]
pub(super) async fn unreachable(
    State(state): State<Arc<GcState>>,
    headers: HeaderMap,
    tenure_service::Path(id): tenure_service::Path<String>,
    Body(report): Body<ReportBody>,
) -> Result<Json<TallyBody>, ApiError> {
    let token = bearer(&headers).ok_or(ApiError::InvalidToken)?;
    let reason = match report.reason {
        None | Some(Reason::Unspecified) => UnreachableReason::Unspecified,
        Some(Reason::ConnectionRefused) => UnreachableReason::ConnectionRefused,
        Some(Reason::Timeout) => UnreachableReason::Timeout,
        Some(Reason::TlsError) => UnreachableReason::TlsError,
    };
    let report = Report { meeting_id: &id, mc_id: &report.mc_id, token, reason };
    let tally = state.unreachable(report).await?;
    Ok(Json(TallyBody { reports: tally.reports, quorum: tally.quorum, failover_started: false }))
}

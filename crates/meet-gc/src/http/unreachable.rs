//! Reports of unreachable controllers.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::HeaderMap;
use serde::{Deserialize, Serialize};
use tenure_meet_wire::internal::UnreachableReason;
use utoipa::ToSchema;

use super::Body;
use super::view::McAssignment;
use crate::error::ApiError;
use crate::gc::GcState;
use crate::identity::bearer;
use crate::reports::Report;

/// A report of an unreachable controller.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "UnreachableReport", example = json!({ "mc_id": "mc-1", "reason": "TIMEOUT" }))]
pub(super) struct ReportBody {
    /// The id from the join response.
    #[schema(max_length = 128)]
    mc_id: String,
    /// The observed failure: `CONNECTION_REFUSED`, `TIMEOUT` or `TLS_ERROR`. Anything else counts as `UNSPECIFIED`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    reason: serde_json::Value,
    /// Whether the connection is only silent. Such a report causes a probe and does not count.
    suspect: Option<bool>,
}

/// The decision about a reported controller.
#[derive(Serialize, ToSchema)]
#[schema(title = "UnreachableDecision")]
pub(super) struct DecisionBody {
    /// Users that reported this owner within the last ten seconds.
    reports: u32,
    /// Reports needed to move a meeting away from a controller that is alive.
    quorum: u32,
    /// Whether the meeting leaves the reported controller.
    failover_started: bool,
    /// The controller to connect to. Absent if it is not known yet: join again.
    #[serde(skip_serializing_if = "Option::is_none")]
    mc_assignment: Option<McAssignment>,
}

fn reason(given: &serde_json::Value) -> UnreachableReason {
    match given.as_str().map(str::to_ascii_uppercase).as_deref() {
        Some("CONNECTION_REFUSED") => UnreachableReason::ConnectionRefused,
        Some("TIMEOUT") => UnreachableReason::Timeout,
        Some("TLS_ERROR") => UnreachableReason::TlsError,
        _ => UnreachableReason::Unspecified,
    }
}

/// Reports that the controller of a meeting is unreachable, and answers within three seconds where to connect to. The bearer is the
/// reporter's meeting token. Each user counts once.
#[utoipa::path(
    post, path = "/api/v1/meetings/{id}/unreachable", tag = "meetings", operation_id = "reportUnreachable",
    params(("id" = String, Path, description = "The id of the meeting")),
    request_body = ReportBody, responses((status = 200, body = DecisionBody))
)]
pub(super) async fn unreachable(
    State(state): State<Arc<GcState>>,
    headers: HeaderMap,
    tenure_service::Path(id): tenure_service::Path<String>,
    Body(report): Body<ReportBody>,
) -> Result<Json<DecisionBody>, ApiError> {
    let token = bearer(&headers).ok_or(ApiError::InvalidToken)?;
    let (mc_id, suspect) = (&report.mc_id, report.suspect.unwrap_or(false));
    let report = Report { meeting_id: &id, mc_id, token, reason: reason(&report.reason), suspect };
    let decision = state.unreachable(report).await?;
    Ok(Json(DecisionBody {
        reports: decision.tally.reports,
        quorum: decision.tally.quorum(),
        failover_started: decision.failover_started,
        mc_assignment: decision.home.map(Into::into),
    }))
}

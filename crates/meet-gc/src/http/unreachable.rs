//! Clients that cannot reach a controller.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::HeaderMap;
use meet_wire::internal::UnreachableReason;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Body;
use crate::gc::Site;
use crate::reports::Report;
use crate::trouble::Trouble;
use crate::who::bearer;

/// A controller that cannot be reached.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "UnreachableReport", example = json!({ "mc_id": "mc-1", "reason": "timeout" }))]
pub(super) struct ReportBody {
    /// As the join answer named it.
    #[schema(max_length = 128)]
    mc_id: String,
    /// What was met; unspecified if absent.
    reason: Option<Reason>,
}

/// What a client met.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(title = "UnreachableReason")]
pub(super) enum Reason {
    Unspecified,
    ConnectionRefused,
    Timeout,
    TlsError,
}

/// How far the reports have come.
#[derive(Serialize, ToSchema)]
#[schema(title = "UnreachableTally")]
pub(super) struct TallyBody {
    /// Users that have reported within the last minute.
    reports: u32,
    /// How many must.
    quorum: u32,
    /// Whether another controller takes the meeting because of it.
    failover_started: bool,
}

/// Reports that the controller of a meeting cannot be reached. The bearer is the reporter's meeting token; each user counts once.
#[utoipa::path(
    post, path = "/api/v1/meetings/{id}/unreachable", tag = "meetings", operation_id = "reportUnreachable",
    params(("id" = String, Path, description = "The id of the meeting")),
    request_body = ReportBody, responses((status = 200, body = TallyBody))
)]
pub(super) async fn unreachable(
    State(site): State<Arc<Site>>,
    headers: HeaderMap,
    service::Path(id): service::Path<String>,
    Body(report): Body<ReportBody>,
) -> Result<Json<TallyBody>, Trouble> {
    let token = bearer(&headers).ok_or(Trouble::InvalidToken)?;
    let reason = match report.reason {
        None | Some(Reason::Unspecified) => UnreachableReason::Unspecified,
        Some(Reason::ConnectionRefused) => UnreachableReason::ConnectionRefused,
        Some(Reason::Timeout) => UnreachableReason::Timeout,
        Some(Reason::TlsError) => UnreachableReason::TlsError,
    };
    let report = Report { meeting_id: &id, mc_id: &report.mc_id, token, reason };
    let tally = site.unreachable(report).await?;
    Ok(Json(TallyBody { reports: tally.reports, quorum: tally.quorum, failover_started: false }))
}

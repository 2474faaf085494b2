//! Running meetings.

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use tenure_service::{Json, Path, Problem, Query};
use utoipa::{IntoParams, ToSchema};

use super::Operator;
use crate::gc::GcState;
use crate::running::{RunningMeeting, RunningPhase};

/// A page of a list.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Page {
    /// Continue after this meeting: `next` of the page before.
    #[param(max_length = 64)]
    after: Option<String>,
    /// Meetings per page: 1 to 200, by default 100.
    #[param(minimum = 1, maximum = 200)]
    limit: Option<usize>,
}

/// Running meetings, ordered by id.
#[derive(Serialize, ToSchema)]
#[schema(title = "RunningMeetings")]
pub(super) struct MeetingList {
    items: Vec<RunningBody>,
    /// The position of the next page, if there is one.
    next: Option<String>,
}

/// A meeting and where it runs.
#[derive(Serialize, ToSchema)]
#[schema(title = "RunningMeeting")]
pub(super) struct RunningBody {
    meeting_id: String,
    display_name: String,
    /// `active`, `moving` (another controller waits for it), `delayed` (its lease was revoked) or `idle` (no controller
    /// runs it).
    phase: &'static str,
    /// The controller that runs it.
    owner: Option<String>,
    /// The generation of its lease.
    generation: Option<String>,
    /// Since when this owner runs it.
    since_ms: Option<u64>,
    /// Seats, connected or not.
    people: u32,
    /// Seats with a connection.
    connected: u32,
    /// Media handlers, the primary one first.
    handlers: Vec<String>,
    /// Whether it is closed until its host returns.
    closed: bool,
}

/// Lists running meetings.
#[utoipa::path(
    get, path = "/api/v1/admin/meetings", tag = "meetings", operation_id = "listRunningMeetings",
    params(Page), responses((status = 200, body = MeetingList))
)]
pub(super) async fn list(
    State(state): State<Arc<GcState>>,
    _operator: Operator,
    Query(page): Query<Page>,
) -> Result<Json<MeetingList>, Problem> {
    let (items, next) = state.running(page.after.as_deref(), page.limit).await?;
    Ok(Json(MeetingList { items: items.into_iter().map(RunningBody::from).collect(), next }))
}

/// Shows a meeting and where it runs.
#[utoipa::path(
    get, path = "/api/v1/admin/meetings/{id}", tag = "meetings", operation_id = "showMeeting",
    params(("id" = String, Path, description = "The id of the meeting")),
    responses((status = 200, body = RunningBody))
)]
pub(super) async fn show(
    State(state): State<Arc<GcState>>,
    _operator: Operator,
    Path(id): Path<String>,
) -> Result<Json<RunningBody>, Problem> {
    Ok(Json(state.running_one(&id).await?.into()))
}

impl From<RunningMeeting> for RunningBody {
    fn from(running: RunningMeeting) -> Self {
        Self {
            meeting_id: running.id,
            display_name: running.display_name,
            phase: match running.phase {
                RunningPhase::Active => "active",
                RunningPhase::Moving => "moving",
                RunningPhase::Delayed => "delayed",
                RunningPhase::Idle => "idle",
            },
            owner: running.owner,
            generation: running.generation.map(|generation| generation.to_string()),
            since_ms: running.since_ms,
            people: running.people,
            connected: running.connected,
            handlers: running.handlers,
            closed: running.closed,
        }
    }
}

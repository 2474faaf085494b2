//! Creates meetings.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use tenure_meet_wire::Id;
use utoipa::ToSchema;

use super::view::MeetingBody;
use super::{Body, checked_name, checked_participants};
use crate::error::ApiError;
use crate::gc::GcState;
use crate::identity::User;
use crate::meetings::Meeting;
use crate::{limits, metric};

/// The settings of a new meeting.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "CreateMeeting", example = json!({ "display_name": "Monday", "max_participants": 20 }))]
pub(super) struct CreateMeeting {
    #[schema(min_length = 1, max_length = 255)]
    display_name: String,
    /// Defaults to 100.
    #[schema(minimum = 2, maximum = 10000)]
    max_participants: Option<u32>,
    /// Whether guests without an account may join. Defaults to true.
    allow_guests: Option<bool>,
    /// Whether participants wait until the host admits them, also before the host arrives. Defaults to false.
    waiting_room: Option<bool>,
}

/// Creates a meeting with the caller as its host.
#[utoipa::path(
    post, path = "/api/v1/meetings", tag = "meetings", operation_id = "createMeeting",
    request_body = CreateMeeting, responses((status = 201, body = MeetingBody))
)]
pub(super) async fn create(
    State(state): State<Arc<GcState>>,
    user: User,
    Body(request): Body<CreateMeeting>,
) -> Result<(StatusCode, Json<MeetingBody>), ApiError> {
    checked_name(&request.display_name, 1, limits::NAME)?;
    let max_participants = request.max_participants.unwrap_or(limits::PARTICIPANTS_DEFAULT);
    checked_participants(max_participants)?;
    let now = state.now_ms();
    let meeting = Meeting {
        id: Id::new(state.clock.wall(), &*state.options.entropy).to_string(),
        code: state.fresh_code(),
        display_name: request.display_name,
        max_participants,
        allow_guests: request.allow_guests.unwrap_or(true),
        waiting_room: request.waiting_room.unwrap_or(false),
        host_user_id: user.id,
        org_id: user.org_id,
        created_ms: now,
        active_ms: now,
        closed_ms: None,
    };
    let meeting = state.enter(meeting).await?;
    metric::created();
    tracing::info!(meeting = meeting.id, host = meeting.host_user_id, "meeting created");
    Ok((StatusCode::CREATED, Json(MeetingBody::new(meeting, &state.options.rules.public_url))))
}

//! Changes the settings of a meeting.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use super::view::MeetingBody;
use super::{Body, checked_name, checked_participants};
use crate::error::ApiError;
use crate::gc::GcState;
use crate::identity::User;
use crate::limits;

/// A change of a meeting. Absent fields stay as they are.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "MeetingChange", example = json!({ "allow_guests": false }))]
pub(super) struct Change {
    #[schema(min_length = 1, max_length = 255)]
    display_name: Option<String>,
    #[schema(minimum = 2, maximum = 10000)]
    max_participants: Option<u32>,
    allow_guests: Option<bool>,
    /// If it is turned off, participants that wait are admitted.
    waiting_room: Option<bool>,
}

/// Changes a meeting. Only its host may. A running meeting applies the change to later joins; current participants stay. If its controller
/// cannot be reached, the change applies from the next controller on, or when the request is repeated.
#[utoipa::path(
    patch, path = "/api/v1/meetings/{id}/settings", tag = "meetings", operation_id = "changeMeeting",
    params(("id" = String, Path, description = "The id of the meeting")),
    request_body = Change, responses((status = 200, body = MeetingBody))
)]
pub(super) async fn settings(
    State(state): State<Arc<GcState>>,
    user: User,
    tenure_service::Path(id): tenure_service::Path<String>,
    Body(request): Body<Change>,
) -> Result<Json<MeetingBody>, ApiError> {
    request.display_name.as_deref().map_or(Ok(()), |name| checked_name(name, 1, limits::NAME))?;
    request.max_participants.map_or(Ok(()), checked_participants)?;
    let kept = state.by_id(&id).await?;
    if kept.meeting.host_user_id != user.id {
        return Err(ApiError::Forbidden("only the host may change the meeting".to_owned()));
    }
    let changed = state.change(kept, |meeting| {
        if let Some(name) = &request.display_name {
            meeting.display_name.clone_from(name);
        }
        meeting.max_participants = request.max_participants.unwrap_or(meeting.max_participants);
        meeting.allow_guests = request.allow_guests.unwrap_or(meeting.allow_guests);
        meeting.waiting_room = request.waiting_room.unwrap_or(meeting.waiting_room);
    });
    let changed = changed.await?;
    // Also when the record did not change: the last push may have failed.
    let joins = [request.allow_guests, request.waiting_room].iter().any(Option::is_some);
    if request.max_participants.is_some() || joins {
        state.announce(&changed).await;
    }
    Ok(Json(MeetingBody::new(changed, &state.options.rules.public_url)))
}

//! What a host may change.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use super::view::MeetingBody;
use super::{Body, checked_name, checked_participants};
use crate::gc::Site;
use crate::limits;
use crate::trouble::Trouble;
use crate::who::User;

/// What changes of a meeting. What is absent stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "MeetingChange", example = json!({ "allow_guests": false }))]
pub(super) struct Change {
    #[schema(min_length = 1, max_length = 255)]
    display_name: Option<String>,
    #[schema(minimum = 2, maximum = 10000)]
    max_participants: Option<u32>,
    allow_guests: Option<bool>,
}

/// Changes a meeting; only its host may. A meeting that runs is told: whoever joins from then on is judged by the change, and nobody who has
/// a seat loses it. If its controller cannot be told, the change holds there from the next controller on, or when it is asked for again.
#[utoipa::path(
    patch, path = "/api/v1/meetings/{id}/settings", tag = "meetings", operation_id = "changeMeeting",
    params(("id" = String, Path, description = "The id of the meeting")),
    request_body = Change, responses((status = 200, body = MeetingBody))
)]
pub(super) async fn settings(
    State(site): State<Arc<Site>>,
    user: User,
    service::Path(id): service::Path<String>,
    Body(wish): Body<Change>,
) -> Result<Json<MeetingBody>, Trouble> {
    wish.display_name.as_deref().map_or(Ok(()), |name| checked_name(name, 1, limits::NAME))?;
    wish.max_participants.map_or(Ok(()), checked_participants)?;
    let kept = site.by_id(&id).await?;
    if kept.meeting.host_user_id != user.id {
        return Err(Trouble::Forbidden("only the host changes the meeting".to_owned()));
    }
    let changed = site.change(kept, |meeting| {
        if let Some(name) = &wish.display_name {
            meeting.display_name.clone_from(name);
        }
        meeting.max_participants = wish.max_participants.unwrap_or(meeting.max_participants);
        meeting.allow_guests = wish.allow_guests.unwrap_or(meeting.allow_guests);
    });
    let changed = changed.await?;
    // Also when the record said so already: the last time may not have been heard.
    if wish.max_participants.is_some() || wish.allow_guests.is_some() {
        site.announce(&changed).await;
    }
    Ok(Json(MeetingBody::new(changed, &site.options.rules.public_url)))
}

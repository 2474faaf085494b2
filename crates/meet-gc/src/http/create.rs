//! A new meeting.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use meet_wire::Id;
use serde::Deserialize;
use utoipa::ToSchema;

use super::view::MeetingBody;
use super::{Body, checked_name, checked_participants};
use crate::book::Meeting;
use crate::gc::Site;
use crate::trouble::Trouble;
use crate::who::User;
use crate::{limits, metric};

/// A new meeting.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "NewMeeting", example = json!({ "display_name": "Monday", "max_participants": 20 }))]
pub(super) struct NewMeeting {
    #[schema(min_length = 1, max_length = 255)]
    display_name: String,
    /// 100 if absent.
    #[schema(minimum = 2, maximum = 10000)]
    max_participants: Option<u32>,
    /// Whether people without an account may join; they may if absent.
    allow_guests: Option<bool>,
}

/// Makes a meeting, of which the caller is the host.
#[utoipa::path(
    post, path = "/api/v1/meetings", tag = "meetings", operation_id = "createMeeting",
    request_body = NewMeeting, responses((status = 201, body = MeetingBody))
)]
pub(super) async fn create(
    State(site): State<Arc<Site>>,
    user: User,
    Body(wish): Body<NewMeeting>,
) -> Result<(StatusCode, Json<MeetingBody>), Trouble> {
    checked_name(&wish.display_name, 1, limits::NAME)?;
    let max_participants = wish.max_participants.unwrap_or(limits::PARTICIPANTS_DEFAULT);
    checked_participants(max_participants)?;
    let now = site.now_ms();
    let meeting = Meeting {
        id: Id::new(site.clock.wall(), &*site.options.entropy).to_string(),
        code: site.fresh_code(),
        display_name: wish.display_name,
        max_participants,
        allow_guests: wish.allow_guests.unwrap_or(true),
        host_user_id: user.id,
        org_id: user.org_id,
        created_ms: now,
        active_ms: now,
        closed_ms: None,
    };
    let meeting = site.enter(meeting).await?;
    metric::created();
    tracing::info!(meeting = meeting.id, host = meeting.host_user_id, "a meeting was made");
    Ok((StatusCode::CREATED, Json(MeetingBody::new(meeting, &site.options.rules.public_url))))
}

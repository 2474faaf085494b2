//! Joins a meeting.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use tenure_meet_wire::jwt::{GuestClaims, GuestTokenRequest, MemberTokenRequest, Role};
use utoipa::ToSchema;

use super::view::McAssignment;
use crate::error::ApiError;
use crate::gc::GcState;
use crate::identity::{Identity, User};
use crate::meetings::{Meeting, StoredMeeting};
use crate::{Signed, metric};

/// Admission to a meeting.
#[derive(Serialize, ToSchema)]
#[schema(title = "JoinResponse")]
pub(super) struct JoinResponse {
    /// Authenticates to the meeting's controller.
    token: String,
    /// Seconds.
    expires_in: u64,
    meeting_id: String,
    meeting_name: String,
    /// `host`, `participant` or `guest`.
    role: &'static str,
    /// Whether the participant waits until a host admits it. Hosts do not wait.
    waiting_room: bool,
    mc_assignment: McAssignment,
}

/// Joins a meeting: returns its controller and a token for it. Accepts a bearer token or session with `meet:write`, a user token
/// of the authority, or a guest token of this meeting.
#[utoipa::path(
    get, path = "/api/v1/meetings/{code}", tag = "meetings", operation_id = "joinMeeting",
    params(("code" = String, Path, description = "The code of the meeting")),
    responses((status = 200, body = JoinResponse))
)]
pub(super) async fn join(
    State(state): State<Arc<GcState>>,
    identity: Identity,
    tenure_service::Path(code): tenure_service::Path<String>,
) -> Result<Json<JoinResponse>, ApiError> {
    let answer = join_meeting(&state, identity, &code).await;
    metric::joined(answer.as_ref().map_or_else(ApiError::as_str, |_| "success"));
    answer.map(Json)
}

async fn join_meeting(state: &GcState, identity: Identity, code: &str) -> Result<JoinResponse, ApiError> {
    state.admit_join(identity.id())?;
    let kept = state.by_code(code).await?;
    admitted(&kept, &identity)?;
    let meeting = kept.meeting.clone();
    if !is_host(&meeting, &identity) && state.is_ended(&meeting).await? {
        return Err(ApiError::MeetingEnded);
    }
    let home = state.home(&meeting).await?;
    let (signed, role) = match identity {
        Identity::User(user) => for_user(state, &meeting, user)?,
        Identity::Guest { claims, token } => (for_guest(state, &meeting, claims, token)?, Role::Guest),
    };
    state.touch(kept).await;
    Ok(JoinResponse {
        token: signed.token,
        expires_in: signed.life.as_secs(),
        meeting_id: meeting.id,
        meeting_name: meeting.display_name,
        role: match role {
            Role::Host => "host",
            Role::Participant => "participant",
            Role::Guest => "guest",
        },
        waiting_room: meeting.waiting_room && role != Role::Host,
        mc_assignment: home.into(),
    })
}

fn is_host(meeting: &Meeting, identity: &Identity) -> bool {
    matches!(identity, Identity::User(user) if user.id == meeting.host_user_id)
}

/// Whether the caller may join now.
fn admitted(kept: &StoredMeeting, identity: &Identity) -> Result<(), ApiError> {
    let meeting = &kept.meeting;
    if let Identity::Guest { claims, .. } = identity {
        if claims.meeting_id != meeting.id {
            return Err(ApiError::Forbidden("the guest token is for another meeting".to_owned()));
        }
        if !meeting.allow_guests {
            return Err(no_guests());
        }
    }
    if meeting.closed_ms.is_some() && !is_host(meeting, identity) {
        return Err(closed());
    }
    Ok(())
}

pub(super) fn no_guests() -> ApiError {
    ApiError::Forbidden("the meeting does not allow guests".to_owned())
}

pub(super) fn closed() -> ApiError {
    ApiError::Conflict("the meeting is closed until its host returns".to_owned())
}

fn for_user(state: &GcState, meeting: &Meeting, user: User) -> Result<(Signed, Role), ApiError> {
    let host = user.id == meeting.host_user_id;
    let request = MemberTokenRequest {
        user: user.id,
        meeting_id: meeting.id.clone(),
        home_org_id: Some(user.org_id).filter(|org| !org.is_empty()),
        meeting_org_id: meeting.org_id.clone(),
        host,
    };
    let role = if host { Role::Host } else { Role::Participant };
    Ok((state.options.signer.sign_member(&request)?, role))
}

fn for_guest(
    state: &GcState,
    meeting: &Meeting,
    claims: GuestClaims,
    token: String,
) -> Result<Signed, ApiError> {
    let (meeting_id, display_name) = (meeting.id.clone(), claims.display_name);
    Ok(state.options.signer.sign_guest(&GuestTokenRequest {
        meeting_id,
        display_name,
        previous: Some(token),
    })?)
}

//! The way into a meeting.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use meet_wire::jwt::{GuestClaims, Role};
use serde::Serialize;
use utoipa::ToSchema;

use super::view::McAssignment;
use crate::book::{Kept, Meeting};
use crate::gc::Site;
use crate::trouble::Trouble;
use crate::who::{User, Who};
use crate::{Invitation, Seat, Signed, metric};

/// A seat in a meeting.
#[derive(Serialize, ToSchema)]
#[schema(title = "JoinAnswer")]
pub(super) struct JoinAnswer {
    /// For the meeting's controller.
    token: String,
    /// Seconds.
    expires_in: u64,
    meeting_id: String,
    meeting_name: String,
    /// `host`, `participant` or `guest`.
    role: &'static str,
    mc_assignment: McAssignment,
}

/// Joins a meeting: says where it runs, and gives a token for a seat there. Takes a bearer token or session with `meet:write`, a user
/// token of the authority, or a guest token of this meeting.
#[utoipa::path(
    get, path = "/api/v1/meetings/{code}", tag = "meetings", operation_id = "joinMeeting",
    params(("code" = String, Path, description = "The code of the meeting")),
    responses((status = 200, body = JoinAnswer))
)]
pub(super) async fn join(
    State(site): State<Arc<Site>>,
    who: Who,
    service::Path(code): service::Path<String>,
) -> Result<Json<JoinAnswer>, Trouble> {
    let answer = seated(&site, who, &code).await;
    metric::joined(answer.as_ref().map_or_else(Trouble::word, |_| "success"));
    answer.map(Json)
}

async fn seated(site: &Site, who: Who, code: &str) -> Result<JoinAnswer, Trouble> {
    site.admit_join(who.id())?;
    let kept = site.by_code(code).await?;
    admitted(&kept, &who)?;
    let meeting = kept.meeting.clone();
    let home = site.home(&meeting).await?;
    let (signed, role) = match who {
        Who::User(user) => for_user(site, &meeting, user)?,
        Who::Guest { claims, token } => (for_guest(site, &meeting, claims, token)?, Role::Guest),
    };
    site.touch(kept).await;
    Ok(JoinAnswer {
        token: signed.token,
        expires_in: signed.life.as_secs(),
        meeting_id: meeting.id,
        meeting_name: meeting.display_name,
        role: match role {
            Role::Host => "host",
            Role::Participant => "participant",
            Role::Guest => "guest",
        },
        mc_assignment: home.into(),
    })
}

/// Whether somebody may come in now.
fn admitted(kept: &Kept, who: &Who) -> Result<(), Trouble> {
    let meeting = &kept.meeting;
    let host = matches!(who, Who::User(user) if user.id == meeting.host_user_id);
    if let Who::Guest { claims, .. } = who {
        if claims.meeting_id != meeting.id {
            return Err(Trouble::Forbidden("the guest token is of another meeting".to_owned()));
        }
        if !meeting.allow_guests {
            return Err(no_guests());
        }
    }
    if meeting.closed_ms.is_some() && !host {
        return Err(closed());
    }
    Ok(())
}

pub(super) fn no_guests() -> Trouble {
    Trouble::Forbidden("the meeting takes no guests".to_owned())
}

pub(super) fn closed() -> Trouble {
    Trouble::Conflict("the meeting is closed until its host comes back".to_owned())
}

fn for_user(site: &Site, meeting: &Meeting, user: User) -> Result<(Signed, Role), Trouble> {
    let host = user.id == meeting.host_user_id;
    let seat = Seat {
        user: user.id,
        meeting_id: meeting.id.clone(),
        home_org_id: Some(user.org_id).filter(|org| !org.is_empty()),
        meeting_org_id: meeting.org_id.clone(),
        host,
    };
    let role = if host { Role::Host } else { Role::Participant };
    Ok((site.options.signer.seat(&seat)?, role))
}

fn for_guest(site: &Site, meeting: &Meeting, claims: GuestClaims, token: String) -> Result<Signed, Trouble> {
    let (meeting_id, display_name) = (meeting.id.clone(), claims.display_name);
    Ok(site.options.signer.guest(&Invitation { meeting_id, display_name, previous: Some(token) })?)
}

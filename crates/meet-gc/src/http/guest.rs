//! Guest tokens.

use std::sync::Arc;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use http::HeaderMap;
use http::request::Parts;
use serde::{Deserialize, Serialize};
use tenure_meet_wire::jwt::GuestTokenRequest;
use tenure_service::net::ClientAddress;
use utoipa::ToSchema;

use super::join::{closed, no_guests};
use super::{Body, checked_name};
use crate::error::ApiError;
use crate::gc::GcState;
use crate::identity::bearer;
use crate::{limits, metric};

/// A request for a guest token.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "GuestRequest", example = json!({ "display_name": "Ada" }))]
pub(super) struct GuestRequest {
    #[schema(min_length = 2, max_length = 100)]
    display_name: String,
}

/// A guest token.
#[derive(Serialize, ToSchema)]
#[schema(title = "Guest")]
pub(super) struct GuestBody {
    /// Joins the meeting, and also authenticates the participant to the controller.
    token: String,
    /// Seconds.
    expires_in: u64,
    meeting_id: String,
    display_name: String,
}

/// Proof that the client address is within its guest rate limit.
pub(super) struct GuestAdmission;

impl FromRequestParts<Arc<GcState>> for GuestAdmission {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<GcState>) -> Result<Self, ApiError> {
        let client = ClientAddress::of(&parts.extensions).rate_limit_key();
        let admitted = state.admit(&state.guests, &client).map(|()| Self);
        admitted.inspect_err(|refused| metric::guest(refused.as_str()))
    }
}

/// Issues a guest token. If the bearer is a guest token of the same meeting that is valid or expired less than an hour ago, the guest
/// keeps its id.
#[utoipa::path(
    post, path = "/api/v1/meetings/{code}/guest-token", tag = "meetings", operation_id = "meetingGuest", security(()),
    params(("code" = String, Path, description = "The code of the meeting")),
    request_body = GuestRequest, responses((status = 200, body = GuestBody))
)]
pub(super) async fn guest(
    State(state): State<Arc<GcState>>,
    _: GuestAdmission,
    headers: HeaderMap,
    tenure_service::Path(code): tenure_service::Path<String>,
    Body(guest): Body<GuestRequest>,
) -> Result<Json<GuestBody>, ApiError> {
    let made = made(&state, &code, guest, bearer(&headers).map(str::to_owned)).await;
    metric::guest(made.as_ref().map_or_else(ApiError::as_str, |_| "success"));
    made.map(Json)
}

async fn made(
    state: &GcState,
    code: &str,
    guest: GuestRequest,
    previous: Option<String>,
) -> Result<GuestBody, ApiError> {
    let (least, most) = limits::GUEST_NAME;
    checked_name(&guest.display_name, least, most)?;
    let meeting = state.by_code(code).await?.meeting;
    if !meeting.allow_guests {
        return Err(no_guests());
    }
    if meeting.closed_ms.is_some() {
        return Err(closed());
    }
    let (meeting_id, display_name) = (meeting.id, guest.display_name);
    let request = GuestTokenRequest { meeting_id, display_name, previous };
    let signed = state.options.signer.sign_guest(&request)?;
    let GuestTokenRequest { meeting_id, display_name, .. } = request;
    Ok(GuestBody { token: signed.token, expires_in: signed.life.as_secs(), meeting_id, display_name })
}

//! Describes the caller.

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::identity::{Identity, User};

/// The caller.
#[derive(Serialize, ToSchema)]
#[schema(title = "Me")]
pub(super) struct Me {
    user_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
    roles: Vec<String>,
}

/// Returns the caller's identity in meetings.
#[utoipa::path(
    get, path = "/api/v1/me", tag = "meetings", operation_id = "me",
    responses((status = 200, body = Me))
)]
pub(super) async fn me(identity: Identity) -> Result<Json<Me>, ApiError> {
    Ok(Json(match identity {
        Identity::User(User { id, name, roles, .. }) => Me { user_id: id, display_name: name, roles },
        Identity::Guest { claims, .. } => Me {
            user_id: claims.sub,
            display_name: Some(claims.display_name),
            roles: vec!["guest".to_owned()],
        },
    }))
}

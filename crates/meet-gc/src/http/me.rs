//! Who the caller is here.

use axum::Json;
use serde::Serialize;
use utoipa::ToSchema;

use crate::trouble::Trouble;
use crate::who::{User, Who};

/// The caller.
#[derive(Serialize, ToSchema)]
#[schema(title = "Me")]
pub(super) struct Me {
    user_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    display_name: Option<String>,
    roles: Vec<String>,
}

/// Who the caller is in meetings.
#[utoipa::path(
    get, path = "/api/v1/me", tag = "meetings", operation_id = "me",
    responses((status = 200, body = Me))
)]
pub(super) async fn me(who: Who) -> Result<Json<Me>, Trouble> {
    Ok(Json(match who {
        Who::User(User { id, name, roles, .. }) => Me { user_id: id, display_name: name, roles },
        Who::Guest { claims, .. } => Me {
            user_id: claims.sub,
            display_name: Some(claims.display_name),
            roles: vec!["guest".to_owned()],
        },
    }))
}

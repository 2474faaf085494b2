//! What operators see and order: `/api/v1/admin/…`, with `meet:admin`. Errors are problem details.

mod meetings;
mod nodes;
mod orders;

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use tenure_service::{Area, Caller, Code, Level, Problem};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::error::ApiError;
use crate::gc::GcState;

/// The path of every route here.
pub(super) const PATH: &str = "/api/v1/admin/";

pub(super) fn routes() -> OpenApiRouter<Arc<GcState>> {
    OpenApiRouter::new()
        .routes(routes!(nodes::nodes))
        .routes(routes!(nodes::moves))
        .routes(routes!(meetings::list))
        .routes(routes!(meetings::show))
        .routes(routes!(orders::move_meeting))
        .routes(routes!(orders::end_meeting))
        .routes(routes!(orders::drain))
        .routes(routes!(orders::undrain))
}

/// A caller with `meet:admin`.
pub(super) struct Operator {
    name: String,
}

impl<S: Send + Sync> FromRequestParts<S> for Operator {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let caller = Caller::from_request_parts(parts, state).await?;
        caller.require(Area::Meet, Level::Admin)?;
        Ok(Self { name: caller.name })
    }
}

/// The errors of the other routes, as problem details.
impl From<ApiError> for Problem {
    fn from(error: ApiError) -> Self {
        let detail = error.message();
        match error {
            ApiError::InvalidToken => Self::new(Code::UNAUTHENTICATED, detail),
            ApiError::Forbidden(_) => Self::new(Code::FORBIDDEN, detail),
            ApiError::NotFound(_) => Self::new(Code::NOT_FOUND, detail),
            ApiError::Conflict(_) | ApiError::MeetingEnded => Self::new(Code::CONFLICT, detail),
            ApiError::BadRequest(_) => Self::new(Code::INVALID_REQUEST, detail),
            ApiError::TooFast(_) => Self::new(Code::RATE_LIMITED, detail),
            ApiError::Unavailable(_) => Self::new(Code::UNAVAILABLE, detail),
            ApiError::Refused(problem) => problem,
        }
    }
}

//! Meetings over REST.

mod admin;
mod create;
mod describe;
mod guest;
mod join;
mod me;
mod settings;
mod unreachable;
mod view;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequest, Request};
use axum::middleware::map_response;
use axum::response::Response;
use http::{HeaderValue, header};
use serde::de::DeserializeOwned;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::error::ApiError;
use crate::gc::GcState;
use crate::{Gc, limits};

/// The routes under `/api/v1/meetings`, `/api/v1/admin` and `/api/v1/me`, and their OpenAPI description, which uses the `ProblemBody` of the lease service.
/// Requires the authentication layer around them.
pub fn routes(gc: &Gc) -> (Router, utoipa::openapi::OpenApi) {
    let (router, mut openapi) = described().with_state(gc.state.clone()).split_for_parts();
    describe::complete(&mut openapi);
    (router.layer(DefaultBodyLimit::max(limits::BODY)).layer(map_response(private)), openapi)
}

/// Responses carry tokens and names, so they must not be cached.
async fn private(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn described() -> OpenApiRouter<Arc<GcState>> {
    OpenApiRouter::with_openapi(describe::Description::openapi())
        .routes(routes!(create::create))
        .routes(routes!(join::join))
        .routes(routes!(guest::guest))
        .routes(routes!(settings::settings))
        .routes(routes!(unreachable::unreachable))
        .routes(routes!(me::me))
        .merge(admin::routes())
}

/// A JSON body whose rejections are [`ApiError`]s.
struct Body<T>(T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let tenure_service::Json(body) = tenure_service::Json::from_request(request, state).await?;
        Ok(Self(body))
    }
}

/// Validates a display name: its length, and no control characters.
fn checked_name(name: &str, least: usize, most: usize) -> Result<(), ApiError> {
    let plain = !name.chars().any(char::is_control) && !name.trim().is_empty();
    if plain && (least..=most).contains(&name.chars().count()) {
        return Ok(());
    }
    Err(ApiError::BadRequest(format!("display_name: expected {least} to {most} characters, not only spaces")))
}

fn checked_participants(number: u32) -> Result<(), ApiError> {
    let (least, most) = limits::PARTICIPANTS;
    if (least..=most).contains(&number) {
        return Ok(());
    }
    Err(ApiError::BadRequest(format!("max_participants: {number} is not between {least} and {most}")))
}

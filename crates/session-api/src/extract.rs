//! Extractors for access and path parameters. They run before the body is read.

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use tenure_service::{Area, Caller, Code, Level, Problem};
use tenure_session::SessionId;

use crate::error::ApiError;

/// A caller with the scope `v3:read`.
pub(crate) struct ReadAccess;

/// A caller with the scope `v3:write`.
pub(crate) struct WriteAccess;

/// A caller with the scope `v3:admin`.
pub(crate) struct AdminAccess;

/// The session id in the path.
pub(crate) struct PathId(pub(crate) SessionId);

/// The file name in the path, not validated.
pub(crate) struct PathFile(pub(crate) String);

async fn authorize<S: Send + Sync>(parts: &mut Parts, state: &S, level: Level) -> Result<(), Problem> {
    let caller = Caller::from_request_parts(parts, state).await.map_err(|problem| {
        let code = if problem.code == Code::UNAUTHENTICATED { Code::UNAUTHORIZED } else { problem.code };
        Problem { code, ..problem }
    })?;
    caller.require(Area::Sessions, level)
}

impl<S: Send + Sync> FromRequestParts<S> for ReadAccess {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        authorize(parts, state, Level::Read).await.map(|()| Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for WriteAccess {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        authorize(parts, state, Level::Write).await.map(|()| Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for AdminAccess {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        authorize(parts, state, Level::Admin).await.map(|()| Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathId {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        Ok(Self(SessionId::new(path_param(parts, state, "id").await?)?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathFile {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        path_param(parts, state, "file").await.map(Self)
    }
}

async fn path_param<S: Send + Sync>(parts: &mut Parts, state: &S, name: &str) -> Result<String, ApiError> {
    let params = RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|rejection| ApiError::new(Code::INVALID_INPUT, rejection.body_text()))?;
    let found = params.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned());
    found.ok_or_else(|| ApiError::new(Code::NOT_FOUND, "nothing at this path"))
}

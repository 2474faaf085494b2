//! Who may pass, and which session is meant: both are decided before a body is read.

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;
use service::{Area, Caller, Code, Level, Problem};
use session::SessionId;

use crate::trouble::Trouble;

/// A caller that may look.
pub(crate) struct Reader;

/// A caller that may act.
pub(crate) struct Writer;

/// A caller that may see everybody's sessions.
pub(crate) struct Admin;

/// The session that the path names.
pub(crate) struct Id(pub(crate) SessionId);

/// The file that the path names, unchecked.
pub(crate) struct FileName(pub(crate) String);

async fn pass<S: Send + Sync>(parts: &mut Parts, state: &S, level: Level) -> Result<(), Problem> {
    let caller = Caller::from_request_parts(parts, state).await.map_err(|problem| {
        let code = if problem.code == Code::UNAUTHENTICATED { Code::UNAUTHORIZED } else { problem.code };
        Problem { code, ..problem }
    })?;
    caller.require(Area::Sessions, level)
}

impl<S: Send + Sync> FromRequestParts<S> for Reader {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        pass(parts, state, Level::Read).await.map(|()| Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Writer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        pass(parts, state, Level::Write).await.map(|()| Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Admin {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        pass(parts, state, Level::Admin).await.map(|()| Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Trouble> {
        Ok(Self(SessionId::new(part(parts, state, "id").await?)?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for FileName {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Trouble> {
        part(parts, state, "file").await.map(Self)
    }
}

async fn part<S: Send + Sync>(parts: &mut Parts, state: &S, name: &str) -> Result<String, Trouble> {
    let params = RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|rejection| Trouble::new(Code::INVALID_INPUT, rejection.body_text()))?;
    let found = params.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned());
    found.ok_or_else(|| Trouble::new(Code::NOT_FOUND, "the path names nothing"))
}

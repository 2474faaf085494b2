//! Extractors that check the caller's scope before the body is read.

use axum::extract::FromRequestParts;
use http::request::Parts;
use tenure_service::{Area, Caller, Level, Problem};

/// A caller with the scope lease:read.
pub(super) struct Reader;

/// A caller with the scope lease:write.
pub(super) struct Writer;

/// A caller with the scope lease:admin.
pub(super) struct Admin(pub(super) Caller);

async fn require<S: Send + Sync>(parts: &mut Parts, state: &S, level: Level) -> Result<Caller, Problem> {
    let caller = Caller::from_request_parts(parts, state).await?;
    caller.require(Area::Lease, level)?;
    Ok(caller)
}

impl<S: Send + Sync> FromRequestParts<S> for Reader {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        require(parts, state, Level::Read).await.map(|_| Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Writer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        require(parts, state, Level::Write).await.map(|_| Self)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Admin {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        require(parts, state, Level::Admin).await.map(Self)
    }
}

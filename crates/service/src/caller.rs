//! The authenticated caller. The authentication layer adds a [`Caller`] to the request; handlers take it as an argument.

use axum::extract::FromRequestParts;
use http::request::Parts;

use crate::code::Code;
use crate::problem::Problem;
use crate::scope::{Area, Level, Scope, Scopes};

/// How a caller authenticated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Via {
    /// An `Authorization: Bearer` header.
    Bearer,
    /// The session cookie of the console.
    Cookie,
}

/// An authenticated caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The label of the token; never the token.
    pub name: String,
    /// What it may do.
    pub scopes: Scopes,
    /// How it authenticated.
    pub via: Via,
    /// The digest of its session, where it has one.
    pub(crate) session: Option<[u8; 32]>,
}

/// Why the credentials of a request were rejected; the extractor returns it.
#[derive(Clone, Debug)]
pub(crate) struct Rejected(pub(crate) Problem);

impl Caller {
    /// A caller with a bearer token, for tests and for calls inside the process.
    pub fn bearer(name: impl Into<String>, scopes: Scopes) -> Self {
        Self { name: name.into(), scopes, via: Via::Bearer, session: None }
    }

    /// Fails with 403 `FORBIDDEN` unless the caller has this right.
    pub fn require(&self, area: Area, level: Level) -> Result<(), Problem> {
        if self.scopes.allows(area, level) {
            return Ok(());
        }
        let needed = Scope { area, level }.to_string();
        Err(Problem::new(Code::FORBIDDEN, format!("`{}` lacks the scope {needed}", self.name))
            .with("requiredScope", needed))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        if let Some(caller) = parts.extensions.get::<Self>() {
            return Ok(caller.clone());
        }
        let rejected = parts.extensions.get::<Rejected>().map(|rejected| rejected.0.clone());
        Err(rejected.unwrap_or_else(|| {
            Problem::new(Code::UNAUTHENTICATED, "send `Authorization: Bearer <token>`, or log in at /")
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_right_is_named() {
        let caller = Caller::bearer("ci", ["lease:read".parse().unwrap()].into_iter().collect());
        assert_eq!(caller.require(Area::Lease, Level::Read), Ok(()));
        let problem = caller.require(Area::Lease, Level::Admin).unwrap_err();
        assert_eq!(problem.code, Code::FORBIDDEN);
        assert_eq!(problem.extra["requiredScope"], "lease:admin");
    }
}

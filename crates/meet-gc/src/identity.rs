//! Authenticates callers.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, header};
use sha2::{Digest as _, Sha256};
use tenure_meet_wire::jwt::{GuestClaims, JwtError, UserClaims};
use tenure_service::{Area, Caller, Code, Level, Via};

use crate::error::ApiError;
use crate::gc::GcState;

/// A user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct User {
    pub(crate) id: String,
    pub(crate) org_id: String,
    pub(crate) name: Option<String>,
    pub(crate) roles: Vec<String>,
}

/// A user, or a guest with its token.
pub(crate) enum Identity {
    User(User),
    Guest { claims: GuestClaims, token: String },
}

impl Identity {
    /// The id of the user or guest.
    pub(crate) fn id(&self) -> &str {
        match self {
            Self::User(user) => &user.id,
            Self::Guest { claims, .. } => &claims.sub,
        }
    }
}

/// The token of `Authorization: Bearer …`.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Derives a user id from a token or name without revealing it.
fn user_id(secret: &str) -> String {
    let hex: String = Sha256::digest(secret)[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("u_{hex}")
}

impl FromRequestParts<Arc<GcState>> for Identity {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<GcState>) -> Result<Self, ApiError> {
        match Caller::from_request_parts(parts, state).await {
            Ok(caller) => known(&caller, &parts.headers).map(Self::User),
            Err(problem) if problem.code != Code::UNAUTHENTICATED => Err(problem.into()),
            Err(_) => signed(state, bearer(&parts.headers).ok_or(ApiError::InvalidToken)?).await,
        }
    }
}

/// A user with a token or session of this server. The id derives from the token, or from the token's name for a session.
fn known(caller: &Caller, headers: &HeaderMap) -> Result<User, ApiError> {
    caller.require(Area::Meet, Level::Write)?;
    let id = match (caller.via, bearer(headers)) {
        (Via::Bearer, Some(token)) => user_id(token),
        _ => user_id(&format!("name:{}", caller.name)),
    };
    let roles = caller.scopes.iter().filter(|scope| scope.area == Area::Meet).map(|s| s.to_string());
    Ok(User { id, org_id: String::new(), name: Some(caller.name.clone()), roles: roles.collect() })
}

/// A user or guest with a token signed by the authority.
async fn signed(state: &GcState, token: &str) -> Result<Identity, ApiError> {
    let keys = &state.options.keys;
    match keys.check::<UserClaims>(token).await {
        Ok(claims) => Ok(Identity::User(User {
            id: claims.sub,
            org_id: claims.org_id,
            name: Some(claims.email).filter(|email| !email.is_empty()),
            roles: claims.roles,
        })),
        Err(JwtError::Kind) => {
            let claims = keys.check::<GuestClaims>(token).await.map_err(|_| ApiError::InvalidToken)?;
            Ok(Identity::Guest { claims, token: token.to_owned() })
        }
        Err(_) => Err(ApiError::InvalidToken),
    }
}

impl FromRequestParts<Arc<GcState>> for User {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<GcState>) -> Result<Self, ApiError> {
        match Identity::from_request_parts(parts, state).await? {
            Identity::User(user) => Ok(user),
            Identity::Guest { .. } => Err(ApiError::InvalidToken),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_the_hash_of_its_token() {
        // sha256("abc") begins with ba7816bf8f01cfea.
        assert_eq!(user_id("abc"), "u_ba7816bf8f01cfea");
    }
}

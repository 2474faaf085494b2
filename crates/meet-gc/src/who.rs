//! Who asks.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderMap, header};
use meet_wire::jwt::{GuestClaims, JwtError, UserClaims};
use service::{Area, Caller, Code, Level, Via};
use sha2::{Digest as _, Sha256};

use crate::gc::Site;
use crate::trouble::Trouble;

/// A user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct User {
    pub(crate) id: String,
    pub(crate) org_id: String,
    pub(crate) name: Option<String>,
    pub(crate) roles: Vec<String>,
}

/// A user, or a guest with its token.
pub(crate) enum Who {
    User(User),
    Guest { claims: GuestClaims, token: String },
}

impl Who {
    /// The user or guest.
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

/// The id of whoever has this secret or name. It tells nothing of it.
fn user_id(secret: &str) -> String {
    let hex: String = Sha256::digest(secret)[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("u_{hex}")
}

impl FromRequestParts<Arc<Site>> for Who {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Trouble> {
        match Caller::from_request_parts(parts, site).await {
            Ok(caller) => known(&caller, &parts.headers).map(Self::User),
            Err(problem) if problem.code != Code::UNAUTHENTICATED => Err(problem.into()),
            Err(_) => signed(site, bearer(&parts.headers).ok_or(Trouble::InvalidToken)?).await,
        }
    }
}

/// Somebody with a token or a session of this server. The token makes the user; a session is the user that its token has a name for.
fn known(caller: &Caller, headers: &HeaderMap) -> Result<User, Trouble> {
    caller.require(Area::Meet, Level::Write)?;
    let id = match (caller.via, bearer(headers)) {
        (Via::Bearer, Some(token)) => user_id(token),
        _ => user_id(&format!("name:{}", caller.name)),
    };
    let roles = caller.scopes.iter().filter(|scope| scope.area == Area::Meet).map(|s| s.to_string());
    Ok(User { id, org_id: String::new(), name: Some(caller.name.clone()), roles: roles.collect() })
}

/// Somebody with a token that the authority signed.
async fn signed(site: &Site, token: &str) -> Result<Who, Trouble> {
    let keys = &site.options.keys;
    match keys.check::<UserClaims>(token).await {
        Ok(claims) => Ok(Who::User(User {
            id: claims.sub,
            org_id: claims.org_id,
            name: Some(claims.email).filter(|email| !email.is_empty()),
            roles: claims.roles,
        })),
        Err(JwtError::Kind) => {
            let claims = keys.check::<GuestClaims>(token).await.map_err(|_| Trouble::InvalidToken)?;
            Ok(Who::Guest { claims, token: token.to_owned() })
        }
        Err(_) => Err(Trouble::InvalidToken),
    }
}

impl FromRequestParts<Arc<Site>> for User {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Trouble> {
        match Who::from_request_parts(parts, site).await? {
            Who::User(user) => Ok(user),
            Who::Guest { .. } => Err(Trouble::InvalidToken),
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

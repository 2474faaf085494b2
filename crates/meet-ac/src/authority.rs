//! The authority: signs tokens.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tenure_lease::{Clock, Entropy};
use tenure_meet_wire::jwt::{
    Checker, Claims, GuestClaims, GuestTokenRequest, Jwks, KeySet, Kind, MeetingClaims, MemberTokenRequest,
    ParticipantType, Role, ServiceClaims, UserClaims, sign,
};
use tenure_meet_wire::{Id, limits as wire};

use crate::vault::VaultContents;
use crate::{Clients, Credentials, Vault, limits};

/// Why a token was not issued.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The keys cannot be read or stored.
    #[error("signing keys: {0}")]
    Vault(String),
    /// No signing key is available.
    #[error("no signing key")]
    NoKey,
    /// Unknown client or wrong secret.
    #[error("unknown client or wrong secret")]
    InvalidClient,
    /// A scope that the client does not have.
    #[error("scope not allowed for the client")]
    InvalidScope,
    /// An invalid claim.
    #[error("{0}")]
    Invalid(&'static str),
}

/// Signs tokens with the current key.
pub struct Authority {
    vault: Vault,
    clients: Clients,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    found: RwLock<VaultContents>,
}

impl Authority {
    /// Loads the keys, and creates the first one if there is none.
    pub async fn open(
        vault: Vault,
        clients: Clients,
        clock: Arc<dyn Clock>,
        entropy: Arc<dyn Entropy>,
    ) -> Result<Self, Error> {
        let found = vault.load().await?;
        let authority = Self { vault, clients, clock, entropy, found: RwLock::new(found) };
        authority.turn().await?;
        Ok(authority)
    }

    /// Loads keys that another authority stored and rotates them if due. Call it about once a minute. On failure the current keys
    /// stay in use; they are valid for days.
    pub async fn turn(&self) -> Result<(), Error> {
        let mut found = self.vault.load().await?;
        if let Some(keys) = found.keys.turned(self.clock.wall(), &*self.entropy) {
            found = self.vault.keep(&found, keys, &*self.entropy).await?;
            tracing::info!(keys = found.keys.published().keys.len(), "signing keys rotated");
        }
        *self.found.write() = found;
        Ok(())
    }

    /// Rotates the keys when due, until cancelled.
    pub async fn keep_turning(&self) {
        loop {
            self.clock.sleep_until(self.clock.now() + limits::LOOK).await;
            if let Err(error) = self.turn().await {
                tracing::warn!(%error, "cannot refresh the signing keys; keeping the current ones");
            }
        }
    }

    /// The published keys.
    pub fn published(&self) -> Jwks {
        self.found.read().keys.published()
    }

    /// A checker for tokens of this authority.
    pub fn checker(&self) -> Checker {
        Checker::new(KeySet::from(&self.published()))
    }

    /// Issues a service token with all scopes of the client, or the requested ones.
    pub fn service(
        &self,
        credentials: &Credentials,
        scope: Option<&str>,
    ) -> Result<(String, Duration), Error> {
        let client = self.clients.check(credentials).ok_or(Error::InvalidClient)?;
        let asked: Vec<&str> = scope.unwrap_or_default().split_ascii_whitespace().collect();
        if asked.iter().any(|scope| !client.scopes.iter().any(|held| held == scope)) {
            return Err(Error::InvalidScope);
        }
        let scope = if asked.is_empty() { client.scopes.join(" ") } else { asked.join(" ") };
        let (iat, exp, jti) = self.stamp(limits::SERVICE);
        let (sub, service_type) = (credentials.client_id.clone(), client.service_type);
        let claims = ServiceClaims { sub, token_type: Kind::Service, scope, service_type, iat, exp, jti };
        Ok((self.sign(&claims)?, limits::SERVICE))
    }

    /// Issues a user token.
    pub fn user(&self, user: &str, org_id: &str, email: &str, roles: &[String]) -> Result<String, Error> {
        checked_user(user)?;
        let (iat, exp, jti) = self.stamp(limits::USER);
        self.sign(&UserClaims {
            sub: user.to_owned(),
            token_type: Kind::User,
            org_id: org_id.to_owned(),
            email: email.to_owned(),
            roles: roles.to_vec(),
            iat,
            exp,
            jti,
        })
    }

    /// Issues the token of a member of a meeting.
    pub fn sign_member(&self, request: &MemberTokenRequest) -> Result<String, Error> {
        checked_user(&request.user)?;
        let home = request.home_org_id.as_ref();
        let external = home.is_some_and(|home| *home != request.meeting_org_id);
        let (iat, exp, jti) = self.stamp(limits::MEETING);
        self.sign(&MeetingClaims {
            sub: request.user.clone(),
            token_type: Kind::Meeting,
            meeting_id: request.meeting_id.clone(),
            home_org_id: request.home_org_id.clone(),
            meeting_org_id: request.meeting_org_id.clone(),
            participant_type: if external { ParticipantType::External } else { ParticipantType::Member },
            role: if request.host { Role::Host } else { Role::Participant },
            capabilities: capabilities(request.host),
            iat,
            exp,
            jti,
        })
    }

    /// Issues a guest token. With a previous token of the same meeting, valid or expired within an hour, the guest keeps its id.
    pub fn sign_guest(&self, request: &GuestTokenRequest) -> Result<String, Error> {
        let (least, most) = limits::GUEST_NAME;
        if !(least..=most).contains(&request.display_name.len()) {
            return Err(Error::Invalid("a guest name must have 2 to 100 bytes"));
        }
        let now = self.clock.wall();
        let before = request.previous.as_ref().and_then(|token| {
            self.checker().check_ended::<GuestClaims>(token, now, limits::GUEST_RENEWAL).ok()
        });
        let same = before.filter(|claims| claims.meeting_id == request.meeting_id);
        let sub = same.map_or_else(|| format!("g_{}", Id::new(now, &*self.entropy)), |claims| claims.sub);
        let (iat, exp, jti) = self.stamp(limits::MEETING);
        self.sign(&GuestClaims {
            sub,
            token_type: Kind::Guest,
            meeting_id: request.meeting_id.clone(),
            participant_type: ParticipantType::Guest,
            role: Role::Guest,
            display_name: request.display_name.clone(),
            waiting_room: false,
            iat,
            exp,
            jti,
        })
    }

    fn stamp(&self, life: Duration) -> (u64, u64, String) {
        let wall = self.clock.wall();
        let now = wall.as_micros() / 1_000_000;
        (now, now + life.as_secs(), Id::new(wall, &*self.entropy).to_string())
    }

    fn sign<C: Claims>(&self, claims: &C) -> Result<String, Error> {
        let key = self.found.read().keys.signing(self.clock.wall()).ok_or(Error::NoKey)?;
        sign(&key, claims).map_err(|_| Error::Invalid("the claims exceed the size of a token"))
    }
}

/// The capabilities of a participant. Clients show or hide controls by them; the controller authorizes by role.
fn capabilities(host: bool) -> Vec<String> {
    let all = ["publish", "chat", "moderate", "end_meeting"];
    all.into_iter().take(if host { 4 } else { 2 }).map(str::to_owned).collect()
}

fn checked_user(user: &str) -> Result<(), Error> {
    if user.is_empty() || user.len() > wire::USER_ID {
        return Err(Error::Invalid("a user id must have 1 to 128 bytes"));
    }
    Ok(())
}

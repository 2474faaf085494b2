//! Who signs what.

use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Entropy};
use meet_wire::jwt::{
    Checker, Claims, GuestClaims, Jwks, KeySet, Kind, MeetingClaims, ParticipantType, Role, ServiceClaims,
    UserClaims, sign,
};
use meet_wire::{Id, limits as wire};
use parking_lot::RwLock;

use crate::vault::Found;
use crate::{Clients, Credentials, Vault, limits};

/// Why there is no token.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The keys cannot be read or kept.
    #[error("the signing keys: {0}")]
    Vault(String),
    /// There is no key to sign with.
    #[error("there is no signing key")]
    NoKey,
    /// Nobody we know, or not with that secret.
    #[error("the client is unknown or its secret is wrong")]
    InvalidClient,
    /// More than the client may do.
    #[error("the client may not have that scope")]
    InvalidScope,
    /// A claim that no token may carry.
    #[error("{0}")]
    Invalid(&'static str),
}

/// A member's seat, to be signed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seat {
    /// The user.
    pub user: String,
    /// The meeting.
    pub meeting_id: String,
    /// The user's organisation.
    pub home_org_id: Option<String>,
    /// The meeting's organisation.
    pub meeting_org_id: String,
    /// Whether the user leads.
    pub host: bool,
}

/// A guest's seat, to be signed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Invitation {
    /// The meeting.
    pub meeting_id: String,
    /// The name that the guest gave.
    pub display_name: String,
    /// The guest's last token, so that it stays the same guest.
    pub previous: Option<String>,
}

/// Signs.
pub struct Authority {
    vault: Vault,
    clients: Clients,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    found: RwLock<Found>,
}

impl Authority {
    /// Reads the keys, and makes the first one if there is none.
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

    /// Takes what somebody else made meanwhile and turns the keys if it is time. Call it every minute or so; a failure leaves the keys as
    /// they are, which go on for days.
    pub async fn turn(&self) -> Result<(), Error> {
        let mut found = self.vault.load().await?;
        if let Some(keys) = found.keys.turned(self.clock.wall(), &*self.entropy) {
            found = self.vault.keep(&found, keys, &*self.entropy).await?;
            tracing::info!(
                keys = found.keys.published().keys.len(),
                "the signing keys of meetings have turned"
            );
        }
        *self.found.write() = found;
        Ok(())
    }

    /// Turns the keys when it is time, for ever.
    pub async fn keep_turning(&self) {
        loop {
            self.clock.sleep_until(self.clock.now() + limits::LOOK).await;
            if let Err(error) = self.turn().await {
                tracing::warn!(%error, "the signing keys could not be looked at; they go on as they are");
            }
        }
    }

    /// The published keys.
    pub fn published(&self) -> Jwks {
        self.found.read().keys.published()
    }

    /// A checker of its own tokens.
    pub fn checker(&self) -> Checker {
        Checker::new(KeySet::from(&self.published()))
    }

    /// A token for a part of the service: all its scopes, or those that it asks for.
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

    /// A token for a person.
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

    /// A token for a member's seat.
    pub fn seat(&self, seat: &Seat) -> Result<String, Error> {
        checked_user(&seat.user)?;
        let home = seat.home_org_id.as_ref();
        let external = home.is_some_and(|home| *home != seat.meeting_org_id);
        let (iat, exp, jti) = self.stamp(limits::MEETING);
        self.sign(&MeetingClaims {
            sub: seat.user.clone(),
            token_type: Kind::Meeting,
            meeting_id: seat.meeting_id.clone(),
            home_org_id: seat.home_org_id.clone(),
            meeting_org_id: seat.meeting_org_id.clone(),
            participant_type: if external { ParticipantType::External } else { ParticipantType::Member },
            role: if seat.host { Role::Host } else { Role::Participant },
            capabilities: capabilities(seat.host),
            iat,
            exp,
            jti,
        })
    }

    /// A token for a guest's seat. With a good last token, or one that ended within an hour, of the same meeting, it is the same guest.
    pub fn guest(&self, invitation: &Invitation) -> Result<String, Error> {
        let (least, most) = limits::GUEST_NAME;
        if !(least..=most).contains(&invitation.display_name.len()) {
            return Err(Error::Invalid("a guest's name has 2 to 100 bytes"));
        }
        let now = self.clock.wall();
        let before = invitation.previous.as_ref().and_then(|token| {
            self.checker().check_ended::<GuestClaims>(token, now, limits::GUEST_RENEWAL).ok()
        });
        let same = before.filter(|claims| claims.meeting_id == invitation.meeting_id);
        let sub = same.map_or_else(|| format!("g_{}", Id::new(now, &*self.entropy)), |claims| claims.sub);
        let (iat, exp, jti) = self.stamp(limits::MEETING);
        self.sign(&GuestClaims {
            sub,
            token_type: Kind::Guest,
            meeting_id: invitation.meeting_id.clone(),
            participant_type: ParticipantType::Guest,
            role: Role::Guest,
            display_name: invitation.display_name.clone(),
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
        sign(&key, claims).map_err(|_| Error::Invalid("the claims do not fit into a token"))
    }
}

/// What a seat may do, in words that clients show or hide their controls by; the controller decides by the role.
fn capabilities(host: bool) -> Vec<String> {
    let all = ["publish", "chat", "moderate", "end_meeting"];
    all.into_iter().take(if host { 4 } else { 2 }).map(str::to_owned).collect()
}

fn checked_user(user: &str) -> Result<(), Error> {
    if user.is_empty() || user.len() > wire::USER_ID {
        return Err(Error::Invalid("the id of a user has 1 to 128 bytes"));
    }
    Ok(())
}

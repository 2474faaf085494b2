//! The control lease: who drives the device, until when. A pure state machine: time comes in, ends come out.
//!
//! Every answer checks the expiry itself; the timer that calls [`Machine::expire`] only makes the end known.

use lease::Token;
use subtle::ConstantTimeEq;

use crate::uptime::Ms;

/// The only scope there is.
pub(crate) const SCOPE: &str = "global";

/// Who holds, as it introduced itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Owner {
    /// The number of its connection.
    pub client: u32,
    /// The name that it gave.
    pub name: String,
    /// The instance that it named.
    pub instance: String,
}

/// A lease that is held.
#[derive(Clone)]
struct Active {
    id: String,
    token: Token,
    owner: Owner,
    acquired: Ms,
    expires: Ms,
}

/// What anybody may know of the lease. It has no place for the token.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct View {
    /// Whether somebody holds it.
    pub active: bool,
    /// The id of the lease.
    pub id: String,
    /// Who holds it.
    pub owner: Owner,
    /// When it was acquired.
    pub acquired: Ms,
    /// When it ends unless a heartbeat comes.
    pub expires: Ms,
    /// What is left.
    pub remaining: u32,
    /// How long a heartbeat lasts.
    pub ttl: u32,
    /// How often one is expected.
    pub heartbeat: u32,
}

/// How a lease ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Ended {
    /// `released` or `expired`.
    pub event: Event,
    /// Why.
    pub reason: String,
    /// The lease as it was, inactive.
    pub view: View,
}

/// What happened to the lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// Taken, or taken again by its owner.
    Acquired,
    /// Prolonged.
    Heartbeat,
    /// Given up, or taken away.
    Released,
    /// Run out.
    Expired,
}

impl Event {
    /// The word on the wire.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Acquired => "acquired",
            Self::Heartbeat => "heartbeat",
            Self::Released => "released",
            Self::Expired => "expired",
        }
    }
}

/// What an acquire meets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// Nobody holds: the caller may be granted.
    Free,
    /// The caller holds; its time was refreshed.
    Mine(View),
    /// Somebody else holds.
    Locked(View),
}

/// Why a heartbeat or a release was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Denied {
    /// Nobody holds.
    Expired,
    /// Another connection holds.
    Locked(View),
    /// The id or the token is wrong.
    Invalid,
}

/// How a caller stands to the lease: a column of the mutability matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Nobody holds.
    Inactive,
    /// The caller holds.
    Owner,
    /// Somebody else holds.
    Other,
}

/// What a REST proof of ownership amounts to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Proof {
    /// Nobody holds, and the token is none that just ended.
    Free,
    /// The token is right, and the id is right or absent.
    Owner,
    /// No token, and somebody holds: `LEASE_REQUIRED`.
    Missing,
    /// A wrong token with the active id: `LEASE_INVALID`.
    Invalid,
    /// A wrong token without the active id, or the right one with another id: `CONTROL_LOCKED`.
    Locked,
    /// The token of the lease that ended last: `LEASE_EXPIRED`.
    Expired,
}

impl Proof {
    /// Whether a token was presented that opens nothing: what a guesser would do.
    pub(crate) const fn is_wrong_token(self) -> bool {
        matches!(self, Self::Invalid | Self::Locked)
    }
}

/// The lease and the memory of the one before.
pub(crate) struct Machine {
    ttl: u32,
    heartbeat: u32,
    active: Option<Active>,
    /// The digest of the token that ended last, until the next acquire.
    last: Option<lease::Digest>,
}

impl Machine {
    /// A machine without a lease.
    pub(crate) fn new(ttl: u32, heartbeat: u32) -> Self {
        Self { ttl, heartbeat, active: None, last: None }
    }

    /// Remembers a token of an earlier process as the one that ended last.
    pub(crate) fn remember(&mut self, last: Option<lease::Digest>) {
        self.last = last;
    }

    /// What anybody may know.
    pub(crate) fn view(&self, now: Ms) -> View {
        self.live(now).map(|active| self.seen(active, now)).unwrap_or_default()
    }

    /// The secret of the lease, if `client` owns it: for the answer to its own acquire and nothing else.
    pub(crate) fn secret(&self, client: u32, now: Ms) -> Option<&Token> {
        self.live(now).filter(|active| active.owner.client == client).map(|active| &active.token)
    }

    /// The first half of an acquire: refreshes the owner, refuses others, and says when the lease is free.
    pub(crate) fn ask(&mut self, client: u32, now: Ms) -> Asked {
        let expires = now.plus(self.ttl);
        match self.active.as_mut().filter(|active| !active.expires.reached(now)) {
            None => Asked::Free,
            Some(active) if active.owner.client == client => {
                active.expires = expires;
                Asked::Mine(self.view(now))
            }
            Some(_) => Asked::Locked(self.view(now)),
        }
    }

    /// The second half: the kernel granted. The caller has made sure that nobody holds.
    pub(crate) fn grant(&mut self, id: String, token: Token, owner: Owner, now: Ms) -> View {
        self.last = None;
        self.active = Some(Active { id, token, owner, acquired: now, expires: now.plus(self.ttl) });
        self.view(now)
    }

    /// Prolongs. Checked in this order: held at all, by this connection, with this id and token.
    pub(crate) fn heartbeat(&mut self, client: u32, id: &str, token: &str, now: Ms) -> Result<View, Denied> {
        let Some(active) = self.live(now) else { return Err(Denied::Expired) };
        if active.owner.client != client {
            return Err(Denied::Locked(self.seen(active, now)));
        }
        if !active.is(id, token) {
            return Err(Denied::Invalid);
        }
        let expires = now.plus(self.ttl);
        if let Some(active) = &mut self.active {
            active.expires = expires;
        }
        Ok(self.view(now))
    }

    /// Gives up. Nothing held is a success without an end.
    pub(crate) fn release(
        &mut self,
        client: u32,
        id: &str,
        token: &str,
        reason: &str,
        now: Ms,
    ) -> Result<Option<Ended>, Denied> {
        let Some(active) = self.live(now) else { return Ok(None) };
        if active.owner.client != client || !active.is(id, token) {
            return Err(Denied::Invalid);
        }
        Ok(self.end(Event::Released, reason))
    }

    /// Ends a lease whose time is over.
    pub(crate) fn expire(&mut self, now: Ms) -> Option<Ended> {
        if self.active.as_ref()?.expires.reached(now) {
            return self.end(Event::Expired, "heartbeat_timeout");
        }
        None
    }

    /// Ends the lease of a connection that is gone.
    pub(crate) fn disconnect(&mut self, client: u32) -> Option<Ended> {
        if self.active.as_ref()?.owner.client == client {
            return self.end(Event::Released, "ws_disconnect");
        }
        None
    }

    /// Ends this lease from above.
    pub(crate) fn revoke(&mut self, id: &str, reason: &str) -> Option<Ended> {
        if self.active.as_ref()?.id == id {
            return self.end(Event::Released, reason);
        }
        None
    }

    /// The id of the lease that stands, whether or not its time is over.
    pub(crate) fn standing_id(&self) -> Option<&str> {
        self.active.as_ref().map(|active| active.id.as_str())
    }

    /// How a connection stands to the lease.
    pub(crate) fn standing(&self, client: Option<u32>, now: Ms) -> Standing {
        match self.live(now) {
            None => Standing::Inactive,
            Some(active) if Some(active.owner.client) == client => Standing::Owner,
            Some(_) => Standing::Other,
        }
    }

    /// What a token and an id prove.
    pub(crate) fn prove(&self, token: Option<&str>, id: Option<&str>, now: Ms) -> Proof {
        let Some(active) = self.live(now) else {
            let ended = |token| self.ended().is_some_and(|last| digest(token) == Some(*last));
            return if token.is_some_and(ended) { Proof::Expired } else { Proof::Free };
        };
        let Some(token) = token else { return Proof::Missing };
        let right_id = id.map(|id| same_text(id, &active.id));
        match (same_token(&active.token, token), right_id) {
            (true, None | Some(true)) => Proof::Owner,
            (false, Some(true)) => Proof::Invalid,
            (true, Some(false)) | (false, None | Some(false)) => Proof::Locked,
        }
    }

    /// The digest that counts as ended: also of a lease that ran out and was not swept yet.
    fn ended(&self) -> Option<&lease::Digest> {
        self.active.as_ref().map(|active| active.token.digest()).or(self.last.as_ref())
    }

    fn live(&self, now: Ms) -> Option<&Active> {
        self.active.as_ref().filter(|active| !active.expires.reached(now))
    }

    fn end(&mut self, event: Event, reason: &str) -> Option<Ended> {
        let active = self.active.take()?;
        self.last = Some(*active.token.digest());
        let view = View { active: false, remaining: 0, ..self.seen(&active, active.expires) };
        Some(Ended { event, reason: reason.to_owned(), view })
    }

    fn seen(&self, active: &Active, now: Ms) -> View {
        View {
            active: true,
            id: active.id.clone(),
            owner: active.owner.clone(),
            acquired: active.acquired,
            expires: active.expires,
            remaining: active.expires.left(now),
            ttl: self.ttl,
            heartbeat: self.heartbeat,
        }
    }
}

impl Active {
    /// Both are compared always, and in constant time.
    fn is(&self, id: &str, token: &str) -> bool {
        same_text(id, &self.id) & same_token(&self.token, token)
    }
}

fn same_text(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

/// Digests are compared, in constant time, so that nothing shows how much of a guess was right.
fn same_token(token: &Token, given: &str) -> bool {
    digest(given) == Some(*token.digest())
}

fn digest(given: &str) -> Option<lease::Digest> {
    Token::parse(given).ok().map(|token| *token.digest())
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;

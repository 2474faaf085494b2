//! The control lease: its owner and its expiry. A pure state machine; time is an argument.
//!
//! Every method checks the expiry itself. The timer that calls [`LeaseMachine::expire`] only makes the end known.

use subtle::ConstantTimeEq;
use tenure_lease::Token;

use crate::uptime::UptimeMs;

/// The only scope.
pub(crate) const SCOPE: &str = "global";

/// The owner of the lease, as given by the client.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LeaseOwner {
    /// The id of its connection.
    pub client: u32,
    /// The name of the client.
    pub name: String,
    /// The instance id of the client.
    pub instance: String,
}

/// An active lease.
#[derive(Clone)]
struct ActiveLease {
    id: String,
    token: Token,
    owner: LeaseOwner,
    acquired: UptimeMs,
    expires: UptimeMs,
}

/// The public view of the lease. It never contains the token.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LeaseView {
    /// Whether the lease is active.
    pub active: bool,
    /// The id of the lease.
    pub id: String,
    /// Its owner.
    pub owner: LeaseOwner,
    /// When it was acquired.
    pub acquired: UptimeMs,
    /// When it expires without a heartbeat.
    pub expires: UptimeMs,
    /// Remaining time in milliseconds.
    pub remaining: u32,
    /// How long a heartbeat extends the lease.
    pub ttl: u32,
    /// The heartbeat interval.
    pub heartbeat: u32,
}

/// The end of a lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LeaseEnd {
    /// `released` or `expired`.
    pub event: LeaseEvent,
    /// Why it ended.
    pub reason: String,
    /// The ended lease, marked inactive.
    pub view: LeaseView,
}

/// A change of the lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LeaseEvent {
    /// Acquired, or acquired again by its owner.
    Acquired,
    /// Extended.
    Heartbeat,
    /// Released or revoked.
    Released,
    /// Expired.
    Expired,
}

impl LeaseEvent {
    /// The name on the wire.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Acquired => "acquired",
            Self::Heartbeat => "heartbeat",
            Self::Released => "released",
            Self::Expired => "expired",
        }
    }
}

/// The state of the lease that an acquire finds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum AcquireCheck {
    /// The lease is free and may be granted to the caller.
    Free,
    /// The caller owns the lease, which was extended.
    Owned(LeaseView),
    /// Another client owns the lease.
    Locked(LeaseView),
}

/// Why a heartbeat or a release is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LeaseDenial {
    /// No lease is active.
    Expired,
    /// Another connection owns the lease.
    Locked(LeaseView),
    /// The id or the token is wrong.
    Invalid,
}

/// A requester's relation to the lease: a column of the mutability matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ownership {
    /// No lease is active.
    Inactive,
    /// The requester owns the lease.
    Owner,
    /// Another client owns the lease.
    Other,
}

/// The result of checking a REST proof of ownership.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProofResult {
    /// No lease is active, and the token is not that of the last lease.
    Free,
    /// The token is correct, and the id is correct or absent.
    Owner,
    /// A lease is active and the token is missing: `LEASE_REQUIRED`.
    Missing,
    /// A wrong token with the active id: `LEASE_INVALID`.
    Invalid,
    /// A wrong token without the active id, or the correct token with another id: `CONTROL_LOCKED`.
    Locked,
    /// The token of the lease that ended last: `LEASE_EXPIRED`.
    Expired,
}

impl ProofResult {
    /// Whether the token was wrong, which may be a guess.
    pub(crate) const fn is_wrong_token(self) -> bool {
        matches!(self, Self::Invalid | Self::Locked)
    }
}

/// The lease, and the token digest of the previous one.
pub(crate) struct LeaseMachine {
    ttl: u32,
    heartbeat: u32,
    active: Option<ActiveLease>,
    /// The token digest of the lease that ended last, until the next acquire.
    last: Option<tenure_lease::Digest>,
}

impl LeaseMachine {
    /// Starts without a lease.
    pub(crate) fn new(ttl: u32, heartbeat: u32) -> Self {
        Self { ttl, heartbeat, active: None, last: None }
    }

    /// Sets the token digest of the lease that ended last, as stored by an earlier process.
    pub(crate) fn set_last_token(&mut self, last: Option<tenure_lease::Digest>) {
        self.last = last;
    }

    /// The public view.
    pub(crate) fn view(&self, now: UptimeMs) -> LeaseView {
        self.active_at(now).map(|active| self.view_of(active, now)).unwrap_or_default()
    }

    /// The token, if `client` owns the lease. Only for the reply to the owner's acquire.
    pub(crate) fn token(&self, client: u32, now: UptimeMs) -> Option<&Token> {
        self.active_at(now).filter(|active| active.owner.client == client).map(|active| &active.token)
    }

    /// The first step of an acquire: extends the owner's lease, refuses other clients, or reports a free lease.
    pub(crate) fn check_acquire(&mut self, client: u32, now: UptimeMs) -> AcquireCheck {
        let expires = now.plus(self.ttl);
        match self.active.as_mut().filter(|active| !active.expires.reached(now)) {
            None => AcquireCheck::Free,
            Some(active) if active.owner.client == client => {
                active.expires = expires;
                AcquireCheck::Owned(self.view(now))
            }
            Some(_) => AcquireCheck::Locked(self.view(now)),
        }
    }

    /// The second step, after the kernel's grant. The caller has checked that no lease is active.
    pub(crate) fn grant(&mut self, id: String, token: Token, owner: LeaseOwner, now: UptimeMs) -> LeaseView {
        self.last = None;
        self.active = Some(ActiveLease { id, token, owner, acquired: now, expires: now.plus(self.ttl) });
        self.view(now)
    }

    /// Extends the lease. Checks in this order: an active lease, its connection, its id and token.
    pub(crate) fn heartbeat(
        &mut self,
        client: u32,
        id: &str,
        token: &str,
        now: UptimeMs,
    ) -> Result<LeaseView, LeaseDenial> {
        let Some(active) = self.active_at(now) else { return Err(LeaseDenial::Expired) };
        if active.owner.client != client {
            return Err(LeaseDenial::Locked(self.view_of(active, now)));
        }
        if !active.matches(id, token) {
            return Err(LeaseDenial::Invalid);
        }
        let expires = now.plus(self.ttl);
        if let Some(active) = &mut self.active {
            active.expires = expires;
        }
        Ok(self.view(now))
    }

    /// Releases the lease. Without an active lease this succeeds and shutdown nothing.
    pub(crate) fn release(
        &mut self,
        client: u32,
        id: &str,
        token: &str,
        reason: &str,
        now: UptimeMs,
    ) -> Result<Option<LeaseEnd>, LeaseDenial> {
        let Some(active) = self.active_at(now) else { return Ok(None) };
        if active.owner.client != client || !active.matches(id, token) {
            return Err(LeaseDenial::Invalid);
        }
        Ok(self.end_lease(LeaseEvent::Released, reason))
    }

    /// Ends an expired lease.
    pub(crate) fn expire(&mut self, now: UptimeMs) -> Option<LeaseEnd> {
        if self.active.as_ref()?.expires.reached(now) {
            return self.end_lease(LeaseEvent::Expired, "heartbeat_timeout");
        }
        None
    }

    /// Ends the lease of a closed connection.
    pub(crate) fn disconnect(&mut self, client: u32) -> Option<LeaseEnd> {
        if self.active.as_ref()?.owner.client == client {
            return self.end_lease(LeaseEvent::Released, "ws_disconnect");
        }
        None
    }

    /// Revokes the lease with this id.
    pub(crate) fn revoke(&mut self, id: &str, reason: &str) -> Option<LeaseEnd> {
        if self.active.as_ref()?.id == id {
            return self.end_lease(LeaseEvent::Released, reason);
        }
        None
    }

    /// The id of the active lease, even if it has expired but not ended yet.
    pub(crate) fn active_id(&self) -> Option<&str> {
        self.active.as_ref().map(|active| active.id.as_str())
    }

    /// The relation of a connection to the lease.
    pub(crate) fn ownership(&self, client: Option<u32>, now: UptimeMs) -> Ownership {
        match self.active_at(now) {
            None => Ownership::Inactive,
            Some(active) if Some(active.owner.client) == client => Ownership::Owner,
            Some(_) => Ownership::Other,
        }
    }

    /// Checks a token and an id.
    pub(crate) fn check_proof(&self, token: Option<&str>, id: Option<&str>, now: UptimeMs) -> ProofResult {
        let Some(active) = self.active_at(now) else {
            let ended = |token| self.last_digest().is_some_and(|last| digest(token) == Some(*last));
            return if token.is_some_and(ended) { ProofResult::Expired } else { ProofResult::Free };
        };
        let Some(token) = token else { return ProofResult::Missing };
        let right_id = id.map(|id| same_text(id, &active.id));
        match (same_token(&active.token, token), right_id) {
            (true, None | Some(true)) => ProofResult::Owner,
            (false, Some(true)) => ProofResult::Invalid,
            (true, Some(false)) | (false, None | Some(false)) => ProofResult::Locked,
        }
    }

    /// The token digest of the last lease, including one that expired but was not ended yet.
    fn last_digest(&self) -> Option<&tenure_lease::Digest> {
        self.active.as_ref().map(|active| active.token.digest()).or(self.last.as_ref())
    }

    fn active_at(&self, now: UptimeMs) -> Option<&ActiveLease> {
        self.active.as_ref().filter(|active| !active.expires.reached(now))
    }

    fn end_lease(&mut self, event: LeaseEvent, reason: &str) -> Option<LeaseEnd> {
        let active = self.active.take()?;
        self.last = Some(*active.token.digest());
        let view = LeaseView { active: false, remaining: 0, ..self.view_of(&active, active.expires) };
        Some(LeaseEnd { event, reason: reason.to_owned(), view })
    }

    fn view_of(&self, active: &ActiveLease, now: UptimeMs) -> LeaseView {
        LeaseView {
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

impl ActiveLease {
    /// Always compares both, in constant time.
    fn matches(&self, id: &str, token: &str) -> bool {
        same_text(id, &self.id) & same_token(&self.token, token)
    }
}

fn same_text(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

/// Compares digests in constant time, so that timing reveals nothing about a guess.
fn same_token(token: &Token, given: &str) -> bool {
    digest(given) == Some(*token.digest())
}

fn digest(given: &str) -> Option<tenure_lease::Digest> {
    Token::parse(given).ok().map(|token| *token.digest())
}

#[cfg(test)]
#[path = "lease_tests.rs"]
mod tests;

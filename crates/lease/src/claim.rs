//! Requests to a store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Error, Generation, Holder, Key, Meta, Prefix, Token, Ttl, limits};

/// A request to own a key.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The key.
    pub key: Key,
    /// The owner's name.
    pub holder: Holder,
    /// The secret of the reign, made by the caller. The same token again gives the same lease.
    pub token: Token,
    /// How long the grant lasts without renewal.
    pub ttl: Ttl,
    /// How long to stay parked in the queue when the key is busy; `None` returns at once.
    pub wait: Option<Duration>,
    /// Public text that travels with the lease.
    pub meta: Meta,
    /// Replace exactly this live generation: for a predecessor that is proven dead.
    pub instead_of: Option<Generation>,
    /// Whether the holder runs in the store's process.
    pub origin: Origin,
}

/// Where a holder runs, as seen from the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Origin {
    /// In the process that has the store open: its leases end when that process ends.
    #[default]
    Local,
    /// Behind a network: its leases outlive a restart of the store.
    Remote,
}

impl Claim {
    /// A claim of this process that does not wait and has no meta.
    pub fn new(key: Key, holder: Holder, token: Token, ttl: Ttl) -> Self {
        let (wait, meta, instead_of, origin) = (None, Meta::default(), None, Origin::Local);
        Self { key, holder, token, ttl, wait, meta, instead_of, origin }
    }

    /// The same claim, parked for up to `wait` when the key is busy.
    pub fn waiting(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// The same claim with `meta`.
    pub fn meta(mut self, meta: Meta) -> Self {
        self.meta = meta;
        self
    }

    /// The same claim, replacing the live generation `dead`.
    pub fn instead_of(mut self, dead: Generation) -> Self {
        self.instead_of = Some(dead);
        self
    }

    /// The same claim for a holder behind a network.
    pub fn remote(mut self) -> Self {
        self.origin = Origin::Remote;
        self
    }
}

/// One lease in a batch of renewals.
#[derive(Clone, Debug)]
pub struct Renewal {
    /// The key held.
    pub key: Key,
    /// The secret of the reign.
    pub token: Token,
    /// The generation held.
    pub generation: Generation,
    /// The TTL from now on; `None` keeps the current one.
    pub ttl: Option<Ttl>,
}

/// A request to give a key back.
#[derive(Clone, Debug)]
pub struct Release {
    /// The key held.
    pub key: Key,
    /// The secret of the reign; sufficient by itself.
    pub token: Token,
    /// The generation held; `None` matches any generation that the token holds.
    pub generation: Option<Generation>,
    /// The successor: granted at once if parked, otherwise the key is reserved for it for two seconds.
    pub to: Option<Holder>,
}

impl Release {
    /// A release by token alone, without a successor.
    pub fn new(key: Key, token: Token) -> Self {
        Self { key, token, generation: None, to: None }
    }
}

/// A request to hand a key to a parked successor in one step.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The key held.
    pub key: Key,
    /// The secret of the reign.
    pub token: Token,
    /// The generation held.
    pub generation: Generation,
    /// The successor, which must be parked on the key under this name.
    pub to: Holder,
}

/// An operator's request to end a reign.
#[derive(Clone, Debug)]
pub struct Revoke {
    /// The key.
    pub key: Key,
    /// The generation to end; any other is stale.
    pub generation: Generation,
    /// The lock-delay; `None` is the remaining TTL.
    pub delay: Option<Duration>,
    /// Why, for the log.
    pub reason: RevokeReason,
}

/// Why an operator ended a reign: one line of at most 1 KiB, possibly empty.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct RevokeReason(Option<Arc<str>>);

impl RevokeReason {
    /// Validates a text. It is logged, so it must not contain control characters.
    pub fn new(text: impl AsRef<str>) -> Result<Self, Error> {
        let text = text.as_ref().trim();
        if text.len() > limits::META {
            let why = format!("{} bytes, at most {} are allowed", text.len(), limits::META);
            return Err(Error::invalid("reason", why));
        }
        if text.chars().any(char::is_control) {
            return Err(Error::invalid("reason", "must be one line without control characters"));
        }
        Ok(Self((!text.is_empty()).then(|| Arc::from(text))))
    }

    /// The text, empty when there is none.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or("")
    }
}

impl fmt::Debug for RevokeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

/// Proof of holding a gate: key, secret and generation.
#[derive(Clone, Debug)]
pub struct Proof {
    /// The gate's key.
    pub key: Key,
    /// The secret of the reign.
    pub token: Token,
    /// The generation held.
    pub generation: Generation,
}

/// A request to end every lease under a prefix, with the gate's proof checked in the same step.
#[derive(Clone, Debug)]
pub struct Wipe {
    /// The keys to end; the gate's own key is exempt.
    pub prefix: Prefix,
    /// The proof.
    pub gate: Proof,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revoke_reason_is_one_line_of_at_most_a_kibibyte() {
        assert_eq!(
            RevokeReason::new("  node-a does not answer ").unwrap().as_str(),
            "node-a does not answer"
        );
        assert_eq!(RevokeReason::new("").unwrap(), RevokeReason::default());
        assert!(RevokeReason::new("m".repeat(1_024)).is_ok());
        for bad in [&"m".repeat(1_025), "two\nlines", "a\u{1b}[31mcolour"] {
            assert!(RevokeReason::new(bad).unwrap_err().to_string().contains("reason"), "{bad}");
        }
    }
}

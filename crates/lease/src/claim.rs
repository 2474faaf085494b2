//! What callers ask of a store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Error, Generation, Holder, Key, Meta, Prefix, Token, Ttl, limits};

/// A request to own a key.
#[derive(Clone, Debug)]
pub struct Claim {
    /// What to own.
    pub key: Key,
    /// Under which name.
    pub holder: Holder,
    /// The secret of the reign, made by the caller. The same token again gives the same lease.
    pub token: Token,
    /// For how long.
    pub ttl: Ttl,
    /// How long to stay parked in the queue when the key is busy; none answers at once.
    pub wait: Option<Duration>,
    /// What to tell others.
    pub meta: Meta,
    /// Replace exactly this live generation: for a predecessor that is proven dead.
    pub instead_of: Option<Generation>,
    /// Whether the holder lives and dies with the store's process.
    pub origin: Origin,
}

/// Where a holder lives, as seen from the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Origin {
    /// In the process that has the store open: its leases end when that process ends.
    #[default]
    Local,
    /// Behind a network: its leases outlive a restart of the store.
    Remote,
}

impl Claim {
    /// A claim that does not wait, says nothing about itself, and lives in this process.
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
    /// The TTL from now on; none keeps the current one.
    pub ttl: Option<Ttl>,
}

/// A request to give a key back.
#[derive(Clone, Debug)]
pub struct Release {
    /// The key held.
    pub key: Key,
    /// The secret of the reign; enough by itself.
    pub token: Token,
    /// The generation held; none matches whatever the token holds.
    pub generation: Option<Generation>,
    /// Who should have it next: granted at once if parked, else reserved for two seconds.
    pub to: Option<Holder>,
}

impl Release {
    /// A release by token alone, to nobody in particular.
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

/// The operator's force: end a reign whoever holds it.
#[derive(Clone, Debug)]
pub struct Revoke {
    /// The key.
    pub key: Key,
    /// The generation to end; any other is stale.
    pub generation: Generation,
    /// How long nobody may have the key; none is what was left of the TTL.
    pub delay: Option<Duration>,
    /// Why, in the operator's words.
    pub reason: Motive,
}

/// Why an operator ended a reign: one line of at most 1 KiB, possibly empty.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Motive(Option<Arc<str>>);

impl Motive {
    /// Checks and takes a text. It ends up in logs, so it has no control characters.
    pub fn new(text: impl AsRef<str>) -> Result<Self, Error> {
        let text = text.as_ref().trim();
        if text.len() > limits::META {
            let why = format!("{} bytes, at most {} are allowed", text.len(), limits::META);
            return Err(Error::invalid("reason", why));
        }
        if text.chars().any(char::is_control) {
            return Err(Error::invalid("reason", "has control characters; write it in one line"));
        }
        Ok(Self((!text.is_empty()).then(|| Arc::from(text))))
    }

    /// The text, empty when there is none.
    pub fn as_str(&self) -> &str {
        self.0.as_deref().unwrap_or("")
    }
}

impl fmt::Debug for Motive {
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
    /// Which keys; the gate's own key is exempt.
    pub prefix: Prefix,
    /// The proof.
    pub gate: Proof,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_motive_is_one_line_of_at_most_a_kibibyte() {
        assert_eq!(Motive::new("  node-a does not answer ").unwrap().as_str(), "node-a does not answer");
        assert_eq!(Motive::new("").unwrap(), Motive::default());
        assert!(Motive::new("m".repeat(1_024)).is_ok());
        for bad in [&"m".repeat(1_025), "two\nlines", "a\u{1b}[31mcolour"] {
            assert!(Motive::new(bad).unwrap_err().to_string().contains("reason"), "{bad}");
        }
    }
}

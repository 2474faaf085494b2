//! A granted lease and its public view.

use std::fmt;
use std::time::Duration;

use crate::{Generation, Holder, Key, Meta, Ttl, Wall};

/// What was granted: a plain value, safe to log and to compare.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    /// The key owned.
    pub key: Key,
    /// Its owner.
    pub holder: Holder,
    /// The fencing number of this reign.
    pub generation: Generation,
    /// How long the grant lasts without renewal.
    pub ttl: Ttl,
}

/// The public handle of one reign: `cl_` and hex digits of key and generation.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct LeaseId(String);

impl Lease {
    /// The public handle of this reign, stable from grant to end.
    pub fn id(&self) -> LeaseId {
        use sha2::{Digest, Sha256};
        let hash =
            Sha256::new().chain_update(self.key.as_str()).chain_update(self.generation.get().to_be_bytes());
        let hex: String = hash.finalize()[..12].iter().map(|b| format!("{b:02x}")).collect();
        LeaseId(format!("cl_{hex}"))
    }
}

impl LeaseId {
    /// The handle as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LeaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The phase of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Not held; any claim may be granted.
    Free,
    /// Held by a live lease.
    Held,
    /// Not held; no claim is granted until the lock-delay ends.
    Delayed,
    /// Reserved for a named successor.
    Reserved,
}

/// The public state of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// The key.
    pub key: Key,
    /// Its phase.
    pub phase: Phase,
    /// The holder, or the successor that it is reserved for.
    pub holder: Option<Holder>,
    /// The generation held, or the last one minted.
    pub generation: Option<Generation>,
    /// The remaining time of the reign, delay or reservation; `None` when unknown or unbounded.
    pub remaining: Option<Duration>,
    /// The holder's public text.
    pub meta: Meta,
    /// Since when it is held.
    pub since: Option<Wall>,
    /// The number of parked claims.
    pub waiters: u32,
}

/// One finished or running reign in the history of a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reign {
    /// The holder.
    pub holder: Holder,
    /// Its generation.
    pub generation: Generation,
    /// When it began.
    pub from: Wall,
    /// When it ended; `None` while it lasts.
    pub until: Option<Wall>,
    /// Why it ended; `None` while it lasts.
    pub end: Option<End>,
}

/// Why a reign ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum End {
    /// The holder released it.
    Released,
    /// The holder transferred it to a named successor.
    Transferred,
    /// The TTL ran out.
    Expired,
    /// An operator ended it.
    Revoked,
    /// Another claim proved this holder dead and replaced it.
    Superseded,
    /// A gate wiped it.
    Wiped,
    /// The process that held it is gone: its store directory was unlocked.
    HolderDied,
    /// Unknown: the store's data was lost or changed by another program.
    Gone,
}

impl End {
    /// The word for histories, events and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Transferred => "transferred",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Superseded => "superseded",
            Self::Wiped => "wiped",
            Self::HolderDied => "holder_died",
            Self::Gone => "gone",
        }
    }

    /// Parses [`End::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|end| end.as_str() == word)
    }

    /// All variants.
    pub const ALL: [Self; 8] = [
        Self::Released,
        Self::Transferred,
        Self::Expired,
        Self::Revoked,
        Self::Superseded,
        Self::Wiped,
        Self::HolderDied,
        Self::Gone,
    ];

    /// Whether the token of such a reign is spent.
    ///
    /// An expired or orphaned token is not: its holder did not end the reign.
    pub const fn spends_token(self) -> bool {
        match self {
            Self::Released | Self::Transferred | Self::Revoked | Self::Superseded | Self::Wiped => true,
            Self::Expired | Self::HolderDied | Self::Gone => false,
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_id_is_one_per_key_and_generation() {
        let lease = |key: &str, generation| Lease {
            key: Key::new(key).unwrap(),
            holder: Holder::new("h").unwrap(),
            generation: Generation::new(generation).unwrap(),
            ttl: Ttl::from_secs(1).unwrap(),
        };
        let id = lease("a", 1).id();
        assert_eq!(id, lease("a", 1).id());
        assert_ne!(id, lease("a", 2).id());
        assert_ne!(id, lease("b", 1).id());
        assert!(id.as_str().starts_with("cl_") && id.as_str().len() == 27);
    }

    #[test]
    fn every_end_has_a_distinct_name() {
        for end in End::ALL {
            assert_eq!(End::parse(end.as_str()), Some(end));
        }
        assert_eq!(End::parse("renewed"), None);
    }
}

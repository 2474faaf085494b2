//! Responses of a store. Busy and lost are outcomes, not errors.

use std::time::Duration;

use crate::{End, Generation, Holder, Lease, Revision};

/// The answer to a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Acquired {
    /// The caller owns the key.
    Granted(Grant),
    /// The key is not available.
    Busy(Busy),
}

/// A grant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The lease.
    pub lease: Lease,
    /// Whether the claim had been parked: then the store's TTL has been running since an unknown moment, and
    /// the lease is not held until one renewal of it succeeded.
    pub parked: bool,
}

/// Why a claim was not granted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Busy {
    /// The holder, or the successor that the key is reserved for, if any.
    pub holder: Option<Holder>,
    /// The live generation, or the last one minted, if any.
    pub generation: Option<Generation>,
    /// The longest time until that changes; `None` when it is unbounded.
    pub remaining: Option<Duration>,
    /// The queue position that this claim had or would have had, from 1.
    pub position: u32,
    /// Why the key is not available.
    pub reason: BusyReason,
}

/// Why a key is not available.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BusyReason {
    /// A live lease.
    Held,
    /// A lock-delay after a revocation.
    Delayed,
    /// A reservation for a named successor.
    Reserved,
    /// Other claims are parked and come first.
    Queued,
    /// The server restarted and may have lost a lease whose holder is alive.
    Quarantine,
    /// The key has a value that is not a lease of Tenure.
    Foreign,
    /// `instead_of` named a generation that is not the live one.
    NotThatGeneration,
}

impl BusyReason {
    /// The name on the wire and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Delayed => "delayed",
            Self::Reserved => "reserved",
            Self::Queued => "queued",
            Self::Quarantine => "quarantine",
            Self::Foreign => "foreign",
            Self::NotThatGeneration => "not_that_generation",
        }
    }

    /// Parses [`BusyReason::as_str`].
    pub fn parse(word: &str) -> Option<Self> {
        let all = [
            Self::Held,
            Self::Delayed,
            Self::Reserved,
            Self::Queued,
            Self::Quarantine,
            Self::Foreign,
            Self::NotThatGeneration,
        ];
        all.into_iter().find(|reason| reason.as_str() == word)
    }
}

/// The answer to one renewal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Renewed {
    /// The reign continues.
    Renewed {
        /// The remaining time on the store's clock.
        remaining: Duration,
    },
    /// The reign is over.
    Lost(End),
}

/// The answer to a release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Released {
    /// It was held and is free, or granted to the next waiter.
    Released,
    /// The token holds nothing.
    NotHeld,
}

/// The answer to a transfer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Transferred {
    /// The successor owns the key.
    Transferred(Lease),
    /// The caller does not hold it; nothing changed.
    NotHeld,
    /// The successor is not parked on the key; nothing changed.
    NoSuccessor,
}

/// The answer to a revocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Revoked {
    /// The reign is over and the key is not granted for `delay`.
    Revoked {
        /// The lock-delay.
        delay: Duration,
    },
    /// That generation is not the live one; nothing changed.
    Stale {
        /// The live generation, if any.
        current: Option<Generation>,
    },
}

/// The answer to a verification of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verified {
    /// It holds the key.
    Live {
        /// Its generation.
        generation: Generation,
        /// The remaining time without renewal.
        remaining: Duration,
    },
    /// It held the key, or was released without holding it, and does not hold it now.
    Ended,
    /// It never held the key.
    Wrong,
}

/// The answer to a wipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wiped {
    /// The leases were ended.
    Wiped {
        /// How many.
        count: usize,
    },
    /// The gate is not held with this token and generation; nothing changed.
    Unproven,
}

/// The answer to a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Committed {
    /// All operations took effect.
    Written {
        /// The revision they share, which is that of the last of their events.
        revision: Revision,
    },
    /// One operation's condition did not hold; nothing changed.
    Conflict {
        /// Which operation.
        index: usize,
        /// The record's revision; `None` when there is no record.
        found: Option<Revision>,
    },
    /// The fence refused; nothing changed.
    FencedOut {
        /// The generation that holds the lease or wrote last, if any.
        current: Option<Generation>,
    },
}

//! What stores answer. Busy and lost are outcomes, not errors.

use std::time::Duration;

use crate::{End, Generation, Holder, Lease, Revision};

/// The answer to a claim.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Acquired {
    /// The caller owns the key.
    Granted(Grant),
    /// Somebody or something else has it.
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
    /// Who is in the way, or for whom the key is reserved; none when nobody is.
    pub holder: Option<Holder>,
    /// The generation in the way, or the last one minted; none when there never was one.
    pub generation: Option<Generation>,
    /// How long at most until that changes; none when it has no end.
    pub remaining: Option<Duration>,
    /// The place in the queue that this claim had or would have had; the first is 1.
    pub position: u32,
    /// What is in the way.
    pub reason: Reason,
}

/// What is in the way of a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// A live lease.
    Held,
    /// A lock-delay after a revocation.
    Delayed,
    /// A reservation for a named heir.
    Reserved,
    /// Others are parked and come first.
    Queued,
    /// The server restarted and a holder it forgot may still be alive.
    Quarantine,
    /// The key carries something that is not a lease of ours.
    Foreign,
    /// `instead_of` named a generation that is not the live one.
    NotThatGeneration,
}

impl Reason {
    /// The word for answers and metrics.
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

    /// The reason with this word.
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
    /// The reign goes on.
    Renewed {
        /// What the store's clock has left of it.
        remaining: Duration,
    },
    /// The reign is over.
    Lost(End),
}

/// The answer to a release.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Released {
    /// It was held and is free, or handed on.
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
    /// The reign is over and nobody may have the key for `delay`.
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

/// The answer to a question about a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verified {
    /// It holds the key.
    Live {
        /// Under this generation.
        generation: Generation,
        /// For this long without renewal.
        remaining: Duration,
    },
    /// It held the key, or was given up, and does not hold it now.
    Ended,
    /// It never held the key.
    Wrong,
}

/// The answer to a wipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wiped {
    /// So many leases were ended.
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
        /// The revision found there; none when there is no record.
        found: Option<Revision>,
    },
    /// The fence refused; nothing changed.
    FencedOut {
        /// The generation that holds or wrote last; none when there is none.
        current: Option<Generation>,
    },
}

//! The states of a guard.

use std::fmt;

use tenure_lease::End;

/// The state of a guard. Exclusive in [`Held`](Self::Held) and [`Jeopardy`](Self::Jeopardy), and only there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GuardState {
    /// Renewals succeed.
    Held,
    /// A renewal failed or is overdue, and the deadline has not passed: finish running work, start nothing long.
    Jeopardy,
    /// The deadline has passed: no exclusive act is allowed. The keeper keeps renewing; if the store confirms the same
    /// generation, no other holder can have had it, and the guard is held again.
    Suspended,
    /// Ended for this generation.
    Lost(Lost),
}

/// Why the lease of a guard ended. Terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Lost {
    /// The store reported the end of the reign.
    Ended(End),
    /// No renewal was confirmed in time.
    Unconfirmed,
    /// The worker made no progress, so the keeper stopped renewing.
    Silent,
    /// It was held for as long as its terms permit.
    HeldTooLong,
}

impl GuardState {
    /// Whether exclusive acts are allowed.
    pub const fn is_exclusive(self) -> bool {
        matches!(self, Self::Held | Self::Jeopardy)
    }

    /// Why it ended, if it has.
    pub const fn lost(self) -> Option<Lost> {
        match self {
            Self::Lost(lost) => Some(lost),
            _ => None,
        }
    }
}

impl Lost {
    /// The name for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ended(end) => end.as_str(),
            Self::Unconfirmed => "unconfirmed",
            Self::Silent => "silent",
            Self::HeldTooLong => "held_too_long",
        }
    }

    /// Whether the holder itself ended it.
    pub const fn is_voluntary(self) -> bool {
        matches!(self, Self::Ended(End::Released | End::Transferred))
    }

    /// Whether a release must still be sent. Only an intended end is known to have spent the token. After any other end the
    /// store may still consider the reign live, or may have granted a copy of the claim that the network duplicated.
    pub(crate) const fn needs_release(self) -> bool {
        !matches!(self, Self::Ended(End::Released | End::Transferred | End::Revoked | End::Wiped))
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

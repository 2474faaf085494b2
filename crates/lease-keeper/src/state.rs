//! What a guard may believe about its lease.

use std::fmt;

use lease::End;

/// The state of a guard. Exclusive in [`Held`](Self::Held) and [`Jeopardy`](Self::Jeopardy), and only there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The last renewal is fresh.
    Held,
    /// A renewal failed or is overdue, and the deadline has not come: finish what runs, start nothing long.
    Jeopardy,
    /// The deadline has passed: no exclusive act. The keeper goes on asking; if the store confirms the same
    /// generation, nobody else can have had it and the guard is held again.
    Suspended,
    /// Over for this generation.
    Lost(Lost),
}

/// Why a guard's lease is over. Terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Lost {
    /// The store says that the reign ended.
    Ended(End),
    /// No renewal was confirmed in time.
    Unconfirmed,
    /// The worker made no progress, so the keeper stopped renewing.
    Silent,
    /// It was held for as long as its terms allow.
    HeldTooLong,
}

impl State {
    /// Whether exclusive acts are allowed.
    pub const fn is_exclusive(self) -> bool {
        matches!(self, Self::Held | Self::Jeopardy)
    }

    /// Why it is over, if it is.
    pub const fn lost(self) -> Option<Lost> {
        match self {
            Self::Lost(lost) => Some(lost),
            _ => None,
        }
    }
}

impl Lost {
    /// The word for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ended(end) => end.as_str(),
            Self::Unconfirmed => "unconfirmed",
            Self::Silent => "silent",
            Self::HeldTooLong => "held_too_long",
        }
    }

    /// Whether the holder itself gave it up.
    pub const fn is_voluntary(self) -> bool {
        matches!(self, Self::Ended(End::Released | End::Transferred))
    }

    /// Whether the store may still count the reign as live, or count one as live that nobody knows of: only what somebody
    /// ended on purpose is known to have spent the token. Where the network doubled its claim the copy may come after any
    /// other end, also that of a store which forgot, and be what this reign is told to have been followed by.
    pub(crate) const fn is_owed(self) -> bool {
        !matches!(self, Self::Ended(End::Released | End::Transferred | End::Revoked | End::Wiped))
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

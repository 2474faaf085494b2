//! How a meeting ends at this controller, and what follows.

use tenure_meet_wire::CloseCode;

/// Why the actor stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EndReason {
    /// The meeting ended.
    Ended,
    /// Another controller owns the meeting, or may own it.
    OwnershipLost,
    /// This controller stops.
    Stopped,
    /// The actor panicked too often.
    Panicked,
    /// Another controller runs the meeting.
    Moved,
}

/// The last write of an actor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LastWrite {
    None,
    /// Persist what is queued.
    Flush,
    /// Remove the meeting's records.
    Clear,
    /// Write nothing; find out whether another controller wrote.
    CheckSuperseded,
}

/// What follows from an end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Teardown {
    pub(super) code: CloseCode,
    /// Whether clients still receive what is queued for them.
    pub(super) deliver_queued: bool,
    pub(super) last_write: LastWrite,
    pub(super) release_handlers: bool,
}

impl EndReason {
    #[rustfmt::skip]
    pub(super) const fn teardown(self) -> Teardown {
        let (code, deliver_queued, last_write, release_handlers) = match self {
            //                      close code           queued  last write                  release
            Self::Ended =>         (CloseCode::Done,     true,   LastWrite::Clear,           true),
            Self::OwnershipLost => (CloseCode::Fenced,   false,  LastWrite::CheckSuperseded, false),
            Self::Stopped =>       (CloseCode::Draining, true,   LastWrite::Flush,           false),
            Self::Panicked =>      (CloseCode::Draining, true,   LastWrite::None,            false),
            Self::Moved =>         (CloseCode::Draining, true,   LastWrite::None,            false),
        };
        Teardown { code, deliver_queued, last_write, release_handlers }
    }
}

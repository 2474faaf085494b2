//! What an event leads to.

use bytes::Bytes;
use lease::Wall;
use meet_wire::binding::{BindingToken, Nonce};
use meet_wire::{CloseCode, Id};

use crate::meeting::{Audience, Entry, Handler, Mutes, Phase, Presence, Profile, Seat, Settings, Stream};

/// How a write is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Write {
    /// There is nothing to write.
    None,
    /// Soon: what is lost with the controller can be made anew, or is a pity.
    Async,
    /// Before anybody is told. Without it nothing happens.
    Sync,
}

/// A change of the state, as it is written down.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// The seat is like this now.
    Seat(Box<Seat>),
    /// The seat is no more.
    SeatGone(Id),
    /// The nonce is spent: nobody may spend it again.
    NonceSpent(Nonce),
    /// The mute epoch is this now.
    MuteEpoch(u64),
    /// The meeting is in this phase now.
    Phase(Phase),
    /// These are the media handlers now.
    Handlers(Vec<Handler>),
    /// These are the settings now.
    Settings(Settings),
    /// This happened, and everybody is told.
    Happened(Happening),
}

/// Why somebody left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaveReason {
    /// By their own will.
    Voluntary,
    /// By a host's will.
    Kicked,
    /// The meeting ended.
    MeetingEnded,
    /// They did not come back in time.
    Timeout,
}

/// Something that happened, with a number of its own in the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Happening {
    /// Somebody took a seat.
    Joined(Box<Profile>),
    /// Somebody left it.
    Left {
        /// Who.
        participant: Id,
        /// Why.
        reason: LeaveReason,
    },
    /// Somebody's connection was lost, or is back.
    Presence {
        /// Who.
        participant: Id,
        /// Whether connected.
        here: bool,
        /// How long the seat is kept, when not.
        grace_ms: u32,
    },
    /// Somebody's mutes are like this now.
    Muted {
        /// Who.
        participant: Id,
        /// The mutes.
        mutes: Mutes,
    },
    /// Somebody publishes.
    Published {
        /// Who.
        participant: Id,
        /// Under which number.
        stream_id: u32,
        /// What.
        stream: Stream,
    },
    /// Somebody publishes it no more.
    Unpublished {
        /// Who.
        participant: Id,
        /// What.
        stream_id: u32,
    },
    /// Somebody says something.
    Chat {
        /// Who.
        participant: Id,
        /// Under which name.
        name: String,
        /// What.
        text: String,
        /// When.
        at: Wall,
    },
    /// Somebody's application says something.
    Data {
        /// Who.
        participant: Id,
        /// About what.
        topic: String,
        /// What.
        payload: Bytes,
        /// To whom; everybody when empty.
        to: Vec<Id>,
    },
    /// The meeting is over.
    Ended {
        /// Why.
        reason: String,
    },
}

impl Happening {
    /// For whom it is.
    pub fn audience(&self) -> Audience {
        match self {
            Self::Data { participant, to, .. } if !to.is_empty() => {
                Audience::Some(to.iter().copied().chain([*participant]).collect())
            }
            _ => Audience::All,
        }
    }

    /// About how many bytes it takes.
    pub(super) fn weight(&self) -> usize {
        256 + match self {
            Self::Chat { text, .. } => text.len(),
            Self::Data { payload, topic, .. } => payload.len() + topic.len(),
            Self::Joined(profile) => profile.name.len() + profile.user.len(),
            _ => 0,
        }
    }
}

/// What somebody who took a seat is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// The seat, with the epoch of this connection.
    pub seat: Box<Seat>,
    /// The proof for coming back.
    pub token: BindingToken,
    /// Whether it is the seat that was left.
    pub resumed: bool,
    /// What was missed, to be sent next; none when `roster` is all there is.
    pub replay: Option<Vec<Entry>>,
    /// Everybody else; empty with a replay.
    pub roster: Vec<Profile>,
    /// Where the client is after this, before the replay.
    pub event_seq: u64,
}

/// A word for one participant that is not on the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Telling {
    /// For a host: somebody wants to be unmuted.
    AskedToUnmute {
        /// Who.
        participant: Id,
        /// The microphone.
        audio: bool,
        /// The camera.
        video: bool,
        /// For how long the wish stands.
        expires_in_ms: u32,
    },
    /// A host has answered.
    UnmuteAnswered {
        /// Who is meant.
        participant: Id,
        /// The microphone.
        audio: bool,
        /// The camera.
        video: bool,
    },
    /// For a host: what was asked for is enforced, or not everywhere.
    Enforced {
        /// Who is meant.
        participant: Id,
        /// The epoch of the mute.
        epoch: u64,
        /// Handlers that have not acknowledged.
        missing: Vec<String>,
    },
    /// Go there.
    Redirect {
        /// Where.
        endpoint: String,
        /// The hashes of the certificates there.
        certificates: Vec<Vec<u8>>,
    },
    /// Nothing changes any more after this event.
    Frozen {
        /// The last event.
        event_seq: u64,
    },
}

/// Something to do once the changes are written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Let the connection in.
    Welcome(Box<Welcome>),
    /// The request took effect.
    Accept,
    /// Tell one participant something.
    Tell {
        /// Whom.
        participant: Id,
        /// What.
        telling: Telling,
    },
    /// Close a connection of a seat, and only that one.
    Close {
        /// Whose.
        participant: Id,
        /// Which.
        epoch: u64,
        /// Why.
        code: CloseCode,
    },
    /// Tell the media handlers of the meeting.
    Register,
    /// Have a mute enforced by every media handler, and the host told when it is.
    Enforce {
        /// Whose.
        participant: Id,
        /// The mutes.
        mutes: Mutes,
        /// The host who asked.
        by: Id,
    },
    /// Give the meeting up.
    End,
}

/// All that an event leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Effects {
    /// How the changes are written.
    pub write: Write,
    /// What changes. Whole or not at all.
    pub changes: Vec<Change>,
    /// What is done afterwards, in order.
    pub then: Vec<Effect>,
}

impl Effects {
    /// Nothing.
    pub const fn none() -> Self {
        Self { write: Write::None, changes: Vec::new(), then: Vec::new() }
    }

    pub(super) fn new(write: Write, changes: Vec<Change>, then: Vec<Effect>) -> Self {
        Self { write, changes, then }
    }

    /// What is told to everybody.
    pub fn happenings(&self) -> impl Iterator<Item = &Happening> {
        self.changes.iter().filter_map(|change| match change {
            Change::Happened(happening) => Some(happening),
            _ => None,
        })
    }
}

/// Why an event leads to nothing. Whoever asked is told.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// It makes no sense.
    #[error("{0}")]
    Invalid(&'static str),
    /// Only a host may.
    #[error("only a host may do this")]
    Forbidden,
    /// People without an account may not.
    #[error("this meeting takes no guests")]
    NoGuests,
    /// There is nobody or nothing of that name.
    #[error("{0}")]
    NotFound(&'static str),
    /// It does not fit what is there.
    #[error("{0}")]
    Conflict(&'static str),
    /// It is full.
    #[error("the meeting is full")]
    Full,
    /// Too often.
    #[error("{0}")]
    TooOften(&'static str),
    /// Nothing changes while the meeting moves.
    #[error("the meeting is moving; keep the request")]
    Moving,
    /// The meeting is elsewhere.
    #[error("the meeting has moved")]
    Moved {
        /// Where.
        endpoint: String,
        /// The hashes of the certificates there.
        certificates: Vec<Vec<u8>>,
    },
    /// The meeting is over.
    #[error("the meeting is over")]
    Over,
    /// The seat has a newer connection, or is no more.
    #[error("this connection has no seat")]
    NoSeat,
}

/// Whether somebody is there, as others are told.
pub(super) fn presence(seat: &Seat, grace_ms: u32) -> Happening {
    let here = seat.presence == Presence::Here;
    Happening::Presence { participant: seat.participant, here, grace_ms: if here { 0 } else { grace_ms } }
}

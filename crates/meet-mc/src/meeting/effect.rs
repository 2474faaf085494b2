//! What an input leads to: changes, effects, or a refusal.

use tenure_meet_wire::binding::{BindingToken, Nonce};
use tenure_meet_wire::{CloseCode, Id};

use crate::meeting::{
    Event, HandlerInfo, LeaveReason, LoggedEvent, Mutes, Phase, Profile, Seat, Settings, UserRecord,
    WaitingEntry,
};

/// When the changes must be persisted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Write {
    /// Nothing to persist.
    None,
    /// Soon, together with other changes. A crash may lose them.
    Async,
    /// Before any participant is notified. If the write fails, nothing changes.
    Sync,
}

/// A change of the meeting's state, as it is persisted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Add or replace a seat.
    Seat(Box<Seat>),
    /// Remove a seat.
    SeatRemoved(Id),
    /// Spend a nonce. It can be spent once.
    NonceSpent(Nonce),
    /// Set what hosts decided about a user; an empty record is removed.
    User {
        /// The user.
        user: String,
        /// The record.
        record: UserRecord,
    },
    /// From now on guests enter muted.
    GuestsEnterMuted,
    /// Add a participant that waits. Not persisted.
    Waiting(Box<WaitingEntry>),
    /// Remove a participant that waits. Not persisted.
    WaitingRemoved(Id),
    /// Replace the speakers. Not persisted.
    Speakers(Vec<Id>),
    /// Set the mute epoch.
    MuteEpoch(u64),
    /// Set the phase.
    Phase(Phase),
    /// Replace the media handlers.
    Handlers(Vec<HandlerInfo>),
    /// Replace the settings.
    Settings(Settings),
    /// Append an event to the log and publish it.
    Event(Event),
}

/// The answer to a successful join.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Welcome {
    /// The seat, with the epoch of this connection.
    pub seat: Box<Seat>,
    /// The binding token for the next resume.
    pub token: BindingToken,
    /// Whether the seat was resumed.
    pub resumed: bool,
    /// The missed events, sent after the answer; `None` if `roster` replaces them.
    pub replay: Option<Vec<LoggedEvent>>,
    /// The other participants; empty with a replay.
    pub roster: Vec<Profile>,
    /// The last event that the answer covers, not counting the replay.
    pub event_seq: u64,
}

/// A message for one participant that is not in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DirectMessage {
    /// To a host: a participant asks to be unmuted.
    UnmuteRequested {
        /// The participant.
        participant: Id,
        /// The microphone.
        audio: bool,
        /// The camera.
        video: bool,
        /// When the request lapses.
        expires_in_ms: u32,
    },
    /// To a participant: a host answered its unmute request.
    UnmuteAnswered {
        /// The participant.
        participant: Id,
        /// Whether the microphone is unmuted.
        audio: bool,
        /// Whether the camera is unmuted.
        video: bool,
    },
    /// To a host: which handlers enforce the mute.
    MuteEnforced {
        /// The muted participant.
        participant: Id,
        /// The mute epoch.
        epoch: u64,
        /// Handlers that did not acknowledge.
        missing: Vec<String>,
    },
    /// To a host, or to a participant that waits: the waiting room.
    WaitingRoom,
    /// To a host: the banned users.
    BannedUsers,
    /// Reconnect to another controller.
    Redirect {
        /// The controller's endpoint.
        endpoint: String,
        /// Hashes of the certificates there.
        certificates: Vec<Vec<u8>>,
    },
    /// The meeting is about to move: connect to its next controller and wait there.
    PrepareMove {
        /// The controller's endpoint.
        endpoint: String,
        /// Hashes of the certificates there.
        certificates: Vec<Vec<u8>>,
        /// Lets the participant wait there.
        ticket: Vec<u8>,
        /// The controller's id.
        mc_id: String,
        /// The generation under which it will own the meeting.
        generation: u64,
    },
    /// The meeting is frozen after this event.
    Frozen {
        /// The last event.
        event_seq: u64,
    },
    /// The move was aborted.
    Thawed,
}

/// An action to take once the changes are persisted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Acknowledge the request.
    Accept,
    /// Send a message to one participant.
    Send {
        /// The receiver.
        participant: Id,
        /// The message.
        message: DirectMessage,
    },
    /// Close one connection of a seat.
    Close {
        /// The participant.
        participant: Id,
        /// The connection's epoch.
        epoch: u64,
        /// The close code.
        code: CloseCode,
    },
    /// Register the meeting at its media handlers.
    RegisterHandlers,
    /// Have all media handlers enforce the mutes of a participant, then report to the host.
    EnforceMute {
        /// The participant.
        participant: Id,
        /// The mutes.
        mutes: Mutes,
        /// The host that requested it; none for the first mask of a seat.
        by: Option<Id>,
    },
    /// Have all media handlers end the sessions of a participant that left.
    ReleaseParticipant {
        /// The participant.
        participant: Id,
        /// The epoch of its last connection.
        epoch: u64,
        /// Why it left.
        reason: LeaveReason,
    },
    /// Answer the request with the media handlers and new grants.
    AnswerWithMediaServers,
    /// Process the joins of these participants, which wait, as admitted.
    Admit(Vec<Id>),
    /// Close the connection of a participant that waits.
    TurnAway {
        /// The participant.
        participant: Id,
    },
    /// Stop owning the meeting: it ended.
    End,
}

/// Everything that an input leads to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Effects {
    /// When the changes must be persisted.
    pub write: Write,
    /// The changes, applied all or not at all.
    pub changes: Vec<Change>,
    /// The answer to a join.
    pub welcome: Option<Box<Welcome>>,
    /// The join waits for a host under this id.
    pub waits: Option<Id>,
    /// Actions to take afterwards, in order.
    pub then: Vec<Effect>,
}

impl Effects {
    /// No effects.
    pub const fn none() -> Self {
        Self { write: Write::None, changes: Vec::new(), welcome: None, waits: None, then: Vec::new() }
    }

    pub(super) fn new(write: Write, changes: Vec<Change>, then: Vec<Effect>) -> Self {
        Self { write, changes, welcome: None, waits: None, then }
    }

    pub(super) fn with_welcome(self, welcome: Welcome) -> Self {
        Self { welcome: Some(Box::new(welcome)), ..self }
    }

    /// The events among the changes.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.changes.iter().filter_map(|change| match change {
            Change::Event(event) => Some(event),
            _ => None,
        })
    }
}

/// Why an input is refused. A refused input changes nothing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The request is malformed or out of bounds.
    #[error("{0}")]
    Invalid(&'static str),
    /// The request requires a host.
    #[error("only a host may do this")]
    Forbidden,
    /// The meeting does not admit guests.
    #[error("this meeting does not admit guests")]
    NoGuests,
    /// The named participant, stream or request does not exist.
    #[error("{0}")]
    NotFound(&'static str),
    /// The request does not fit the current state.
    #[error("{0}")]
    Conflict(&'static str),
    /// A host removed the user from the meeting.
    #[error("a host removed you from this meeting")]
    Banned,
    /// The meeting is full.
    #[error("the meeting is full")]
    Full,
    /// A limit was exceeded.
    #[error("{0}")]
    RateLimited(&'static str),
    /// The meeting is frozen for a move.
    #[error("the meeting is moving; retry later")]
    Moving,
    /// The meeting moved to another controller.
    #[error("the meeting has moved")]
    Moved {
        /// The controller's endpoint.
        endpoint: String,
        /// Hashes of the certificates there.
        certificates: Vec<Vec<u8>>,
    },
    /// The meeting ended.
    #[error("the meeting has ended")]
    MeetingEnded,
    /// The seat has a newer connection or was removed.
    #[error("this connection has no seat")]
    NoSeat,
}

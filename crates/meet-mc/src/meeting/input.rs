//! Inputs of the meeting's state machine.

use tenure_meet_wire::Id;
use tenure_meet_wire::binding::Nonce;

use crate::meeting::{HandlerInfo, Request, Role};

/// Something from outside that may change a meeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// A client with a verified token joins or resumes.
    Join(Box<Join>),
    /// A connection ended.
    Disconnected {
        /// The participant.
        participant: Id,
        /// The connection's epoch.
        epoch: u64,
    },
    /// A participant sent a request.
    Request {
        /// The participant.
        participant: Id,
        /// The epoch of the connection that carried the request.
        epoch: u64,
        /// The request's sequence number.
        seq: u64,
        /// The request.
        request: Request,
    },
    /// The media handlers answered a mute order.
    MuteEnforced {
        /// The muted participant.
        participant: Id,
        /// The mute epoch of the order.
        epoch: u64,
        /// The host that requested the mute.
        by: Id,
        /// Handlers that did not acknowledge.
        missing: Vec<String>,
    },
    /// A media handler reports who speaks.
    Speakers {
        /// The loudest first.
        participants: Vec<Id>,
    },
    /// The media handlers were replaced.
    Handlers(Vec<HandlerInfo>),
    /// GC's record of the meeting changed.
    Settings {
        /// Maximum number of seats.
        max_participants: u32,
        /// Whether guests may join.
        allow_guests: bool,
        /// Whether participants other than hosts wait until a host admits them.
        waiting_room: bool,
    },
    /// A participant that waits disconnected.
    StoppedWaiting {
        /// The participant.
        participant: Id,
    },
    /// A deadline of the meeting may have passed.
    Timer,
    /// An operator ends the meeting.
    End,
    /// Ask clients to connect to the controller that the meeting is about to move to.
    PrepareMove(MoveTarget),
    /// Stop all changes: the meeting is about to move.
    Freeze,
    /// Abort the move and allow changes again.
    Thaw,
    /// The meeting moved to another controller.
    Move {
        /// The new controller's endpoint.
        endpoint: String,
        /// Hashes of the certificates there.
        certificates: Vec<Vec<u8>>,
    },
}

/// The controller that a meeting moves to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MoveTarget {
    /// Its id.
    pub mc_id: String,
    /// Its endpoint for clients.
    pub endpoint: String,
    /// Hashes of the certificates there.
    pub certificates: Vec<Vec<u8>>,
    /// The generation that the meeting leaves.
    pub generation: u64,
}

/// A join whose token has been verified.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Join {
    /// The user, from the token.
    pub user: String,
    /// The name shown to others.
    pub name: String,
    /// The role, from the token.
    pub role: Role,
    /// Proof of a seat held before.
    pub resume: Option<ResumeProof>,
    /// Identical in every retransmission of one attempt; empty if the client does not retransmit.
    pub attempt: String,
    /// The last event that the client has received.
    pub last_event_seq: u64,
    /// Whether a host admitted it from the waiting room.
    pub admitted: bool,
    /// Unused ids for the seat and the connection.
    pub ids: NewIds,
}

/// Proof of a seat held before: the binding token of the lost connection.
#[derive(Clone, PartialEq, Eq)]
pub struct ResumeProof {
    /// The correlation id of the lost connection.
    pub correlation: Id,
    /// Its binding token.
    pub token: String,
}

impl std::fmt::Debug for ResumeProof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ResumeProof({}, hidden)", self.correlation)
    }
}

/// Newly generated ids. The caller draws them, so that `apply` needs no randomness.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewIds {
    /// For a new seat.
    pub participant: Id,
    /// For this connection.
    pub correlation: Id,
    /// For its binding token.
    pub nonce: Nonce,
}

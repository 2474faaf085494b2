//! What can happen to a meeting.

use bytes::Bytes;
use meet_wire::Id;
use meet_wire::binding::Nonce;

use crate::meeting::{Handler, LayoutConfig, Role, StreamKind};

/// Something that happens to a meeting from outside.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Somebody with a good token wants a seat, anew or again.
    Join(Box<Join>),
    /// A connection ended.
    Closed {
        /// Whose.
        participant: Id,
        /// Which.
        epoch: u64,
    },
    /// Somebody in the meeting asks for something.
    Asked {
        /// Who.
        participant: Id,
        /// On which connection.
        epoch: u64,
        /// The number of the request.
        seq: u64,
        /// What.
        request: Request,
    },
    /// The media handlers have been told of a mute.
    Enforced {
        /// Whose.
        participant: Id,
        /// The epoch of the mute.
        epoch: u64,
        /// The host who asked.
        by: Id,
        /// Handlers that have not acknowledged.
        missing: Vec<String>,
    },
    /// Other media handlers from now on.
    Handlers(Vec<Handler>),
    /// What the meeting's record says now.
    Settings {
        /// The most seats.
        max_participants: u32,
        /// Whether people without an account may join.
        allow_guests: bool,
    },
    /// Time has passed.
    Time,
    /// The meeting is about to move: nothing changes any more.
    Freeze,
    /// It does not move after all.
    Thaw,
    /// It moves there.
    Move {
        /// Where.
        endpoint: String,
        /// The hashes of the certificates there.
        certificates: Vec<Vec<u8>>,
    },
}

/// A wish for a seat, by somebody whose token was checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Join {
    /// The person, as the token says.
    pub user: String,
    /// The name that others see.
    pub name: String,
    /// What the person may do, as the token says.
    pub role: Role,
    /// The proof of a seat that was left.
    pub resume: Option<Resume>,
    /// The same in every retransmission of one attempt; empty for none.
    pub attempt: String,
    /// The last event that the client has seen.
    pub last_event_seq: u64,
    /// What the seat is made of, if it is made.
    pub fresh: Fresh,
}

/// The proof of a seat that was left.
#[derive(Clone, PartialEq, Eq)]
pub struct Resume {
    /// The connection that was lost.
    pub correlation: Id,
    /// The token that was given to it.
    pub token: String,
}

impl std::fmt::Debug for Resume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Resume({}, hidden)", self.correlation)
    }
}

/// Ids and a nonce that nobody has had before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fresh {
    /// For a new seat.
    pub participant: Id,
    /// For this connection.
    pub correlation: Id,
    /// For its binding.
    pub nonce: Nonce,
}

/// What somebody in a meeting can ask for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// To leave.
    Leave,
    /// To show that the own microphone and camera are muted or not.
    Mute {
        /// The microphone.
        audio: bool,
        /// The camera.
        video: bool,
    },
    /// To mute somebody, or to take that back: what is false is not muted afterwards.
    HostMute {
        /// Whom.
        participant: Id,
        /// The microphone.
        audio: bool,
        /// The camera.
        video: bool,
        /// Why.
        reason: String,
    },
    /// To be unmuted by a host.
    AskUnmute {
        /// The microphone.
        audio: bool,
        /// The camera.
        video: bool,
    },
    /// To answer such a wish.
    AnswerUnmute {
        /// Whose.
        participant: Id,
        /// The microphone may be on.
        audio: bool,
        /// The camera may be on.
        video: bool,
    },
    /// To say something to everybody.
    Chat {
        /// What.
        text: String,
    },
    /// To tell applications something.
    Data {
        /// About what.
        topic: String,
        /// What.
        payload: Bytes,
        /// To whom; everybody when empty.
        to: Vec<Id>,
    },
    /// To publish a stream.
    Publish {
        /// Under which number.
        stream_id: u32,
        /// What it shows.
        kind: StreamKind,
        /// What the application says about it.
        metadata: String,
    },
    /// To publish it no more.
    Unpublish {
        /// Which.
        stream_id: u32,
    },
    /// To see others.
    Subscribe {
        /// The number of the layout's type on the wire.
        kind: i32,
        /// How it is filled.
        config: LayoutConfig,
        /// Streams asked for by name.
        streams: Vec<u32>,
    },
    /// To see others in another way.
    UpdateLayout {
        /// How it is filled.
        config: LayoutConfig,
    },
    /// To see nobody.
    Unsubscribe,
    /// To send somebody away.
    Kick {
        /// Whom.
        participant: Id,
    },
    /// To end the meeting.
    End,
}

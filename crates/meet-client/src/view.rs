//! The view of a participant, and how messages change it. No network, no clock.

mod apply;

use std::collections::{BTreeMap, VecDeque};

use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{
    ChatMessage, DataMessage, ErrorMessage, LeaveReason, MediaServerInfo, MuteEnforced, Participant,
    ParticipantMuteUpdate, ParticipantPresence, PrepareMove, RedirectToMc, Role, StreamPublished,
    StreamUnpublished, UnmuteRequested, UnmuteResponse,
};

pub use apply::apply;

/// What a participant knows.
#[derive(Clone, PartialEq, Debug)]
pub struct View {
    /// The own id. Empty before the first welcome.
    pub me: String,
    /// The own role.
    pub role: Role,
    /// All participants by id, including the own.
    pub people: BTreeMap<String, Participant>,
    /// Participants that the controller announced but has not sent yet.
    pub missing: u32,
    /// The last applied event.
    pub event_seq: u64,
    /// The last event known to be persisted.
    pub durable_seq: u64,
    /// The media handlers of the meeting.
    pub media_servers: Vec<MediaServerInfo>,
    /// Participants that requested to be unmuted, for hosts.
    pub asks: BTreeMap<String, UnmuteRequested>,
    /// The latest chat messages.
    pub lines: VecDeque<ChatLine>,
    /// Why the meeting ended, if it did.
    pub over: Option<String>,
    /// Maximum chat messages.
    keep: usize,
    /// Applied events that are not known to be persisted, to compare with a replay.
    volatile: VecDeque<(u64, Option<Payload>)>,
}

/// A chat message.
#[derive(Clone, PartialEq, Debug)]
pub struct ChatLine {
    /// The event number.
    pub seq: u64,
    /// The sender and the text.
    pub said: ChatMessage,
}

/// An event of the meeting.
#[derive(Clone, PartialEq, Debug)]
pub enum News {
    /// A participant joined.
    Joined(Participant),
    /// A participant left.
    Left {
        /// The participant.
        participant_id: String,
        /// The reason.
        reason: LeaveReason,
    },
    /// A participant disconnected or reconnected.
    Presence(ParticipantPresence),
    /// The mute state of a participant changed.
    Muted(ParticipantMuteUpdate),
    /// A chat message.
    Chat(ChatMessage),
    /// A data message.
    Data(DataMessage),
    /// A stream was published.
    Published(StreamPublished),
    /// A stream was withdrawn.
    Unpublished(StreamUnpublished),
    /// The meeting ended.
    Ended(String),
    /// An event that is not for this participant, or that this version does not know.
    Hidden,
    /// For hosts: a participant requests to be unmuted.
    UnmuteAsked(UnmuteRequested),
    /// The response to an unmute request of this participant.
    UnmuteAnswered(UnmuteResponse),
    /// For the host that muted: whether the handlers enforce the mute.
    Enforced(MuteEnforced),
    /// The media handlers changed.
    MediaServers,
}

/// The effect of a message.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// The welcome, for a resumed or a new participant.
    Welcome {
        /// Whether the participant was resumed.
        resumed: bool,
        /// Whether missed events are replayed.
        replay: bool,
    },
    /// A further part of the roster.
    Roster,
    /// A new event.
    New(News),
    /// A repeated event.
    Repeated,
    /// Events are missing before this one; it was not applied.
    Gap,
    /// Events received while the store was unavailable were not persisted. A full snapshot is needed.
    Rewritten,
    /// The response to the request with the message's number.
    Answer(Option<ErrorMessage>),
    /// The meeting is about to move.
    Prepare(PrepareMove),
    /// The meeting accepts no changes until it has moved.
    Frozen,
    /// The move was aborted.
    Thawed,
    /// The meeting moved.
    Redirect(RedirectToMc),
    /// No effect.
    Nothing,
}

impl View {
    /// An empty view that keeps this many chat messages.
    pub fn new(keep: usize) -> Self {
        Self {
            me: String::new(),
            role: Role::Unspecified,
            people: BTreeMap::new(),
            missing: 0,
            event_seq: 0,
            durable_seq: 0,
            media_servers: Vec::new(),
            asks: BTreeMap::new(),
            lines: VecDeque::new(),
            over: None,
            keep,
            volatile: VecDeque::new(),
        }
    }

    /// The own participant.
    pub fn own(&self) -> Option<&Participant> {
        self.people.get(&self.me)
    }

    /// All other participants, by id.
    pub fn others(&self) -> impl Iterator<Item = &Participant> {
        self.people.values().filter(|person| person.participant_id != self.me)
    }

    /// Whether the roster is complete.
    pub fn is_whole(&self) -> bool {
        !self.me.is_empty() && self.missing == 0
    }

    /// The event to resume from. Events that may not be persisted are requested again.
    pub fn resume_from(&self) -> u64 {
        if self.is_whole() { self.durable_seq } else { u64::MAX }
    }
}

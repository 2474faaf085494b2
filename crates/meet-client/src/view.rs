//! What a participant knows of its meeting, and what a message does to it. No network, no clock.

mod apply;

use std::collections::{BTreeMap, VecDeque};

use meet_wire::signaling::server_message::Payload;
use meet_wire::signaling::{
    ChatMessage, DataMessage, ErrorMessage, LeaveReason, MediaServerInfo, MuteEnforced, Participant,
    ParticipantMuteUpdate, ParticipantPresence, RedirectToMc, Role, StreamPublished, StreamUnpublished,
    UnmuteRequested, UnmuteResponse,
};

pub use apply::apply;

/// What a participant knows.
#[derive(Clone, PartialEq, Debug)]
pub struct View {
    /// This participant; empty before the first welcome.
    pub me: String,
    /// What it may do.
    pub role: Role,
    /// Everybody with a seat, this participant included, by id.
    pub people: BTreeMap<String, Participant>,
    /// Participants that the controller has told of and not sent yet.
    pub missing: u32,
    /// The last event that was taken.
    pub event_seq: u64,
    /// The last one of which is known that it is written down.
    pub durable_seq: u64,
    /// The media handlers of the meeting.
    pub media_servers: Vec<MediaServerInfo>,
    /// Who asks to be unmuted, for hosts.
    pub asks: BTreeMap<String, UnmuteRequested>,
    /// The last lines of the chat.
    pub lines: VecDeque<Line>,
    /// Why the meeting is over, if it is.
    pub over: Option<String>,
    /// How many lines are kept.
    keep: usize,
    /// What was told and is not known to be written down, to be compared with what is replayed.
    volatile: VecDeque<(u64, Option<Payload>)>,
}

/// A line of the chat.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// Its place in the meeting.
    pub seq: u64,
    /// Who said what.
    pub said: ChatMessage,
}

/// Something of the meeting.
#[derive(Clone, PartialEq, Debug)]
pub enum News {
    /// Somebody took a seat.
    Joined(Participant),
    /// A seat is gone.
    Left {
        /// Whose.
        participant_id: String,
        /// Why.
        reason: LeaveReason,
    },
    /// Somebody lost the connection, or is back.
    Presence(ParticipantPresence),
    /// Somebody is muted, or is not any more.
    Muted(ParticipantMuteUpdate),
    /// Somebody said something.
    Chat(ChatMessage),
    /// An application said something.
    Data(DataMessage),
    /// A stream is there.
    Published(StreamPublished),
    /// A stream is gone.
    Unpublished(StreamUnpublished),
    /// The meeting is over.
    Ended(String),
    /// Something that is not for this participant, or that this version does not know.
    Hidden,
    /// For hosts: somebody asks to be unmuted.
    UnmuteAsked(UnmuteRequested),
    /// The answer to such a wish of this participant.
    UnmuteAnswered(UnmuteResponse),
    /// For the host who muted: the handlers hold the mute, or some do not.
    Enforced(MuteEnforced),
    /// Other media handlers.
    MediaServers,
}

/// What a message was.
#[derive(Clone, PartialEq, Debug)]
pub enum Step {
    /// The welcome: the seat, old or new.
    Welcome {
        /// The one that was left.
        resumed: bool,
        /// What was missed follows.
        replay: bool,
    },
    /// A further part of the roster.
    Roster,
    /// Something new.
    New(News),
    /// An event that was taken before.
    Repeated,
    /// Events are missing before this one; it was not taken.
    Gap,
    /// What was told while the store was away did not happen after all: everything has to be sent anew.
    Rewritten,
    /// An answer to the request with the message's number.
    Answer(Option<ErrorMessage>),
    /// The meeting is elsewhere.
    Redirect(RedirectToMc),
    /// Nothing that matters here.
    Nothing,
}

impl View {
    /// Nothing known yet; keeps so many lines of chat.
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

    /// This participant as the meeting sees it.
    pub fn own(&self) -> Option<&Participant> {
        self.people.get(&self.me)
    }

    /// Everybody else, by id.
    pub fn others(&self) -> impl Iterator<Item = &Participant> {
        self.people.values().filter(|person| person.participant_id != self.me)
    }

    /// Whether the whole roster is here.
    pub fn is_whole(&self) -> bool {
        !self.me.is_empty() && self.missing == 0
    }

    /// From which event on a new connection is to go on. After what may not have been written, from before it.
    pub fn resume_from(&self) -> u64 {
        if self.is_whole() { self.durable_seq } else { u64::MAX }
    }
}

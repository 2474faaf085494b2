//! Events: what participants are notified of. Each has a number in the meeting's log.

use bytes::Bytes;
use tenure_lease::Wall;
use tenure_meet_wire::Id;

use crate::meeting::{Mutes, Presence, Profile, Seat, Stream};

/// An event of the meeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A participant joined.
    Joined(Box<Profile>),
    /// A participant left.
    Left {
        /// The participant.
        participant: Id,
        /// The reason.
        reason: LeaveReason,
    },
    /// A participant's connection was lost or resumed.
    Presence {
        /// The participant.
        participant: Id,
        /// Whether it is connected.
        connected: bool,
        /// How long the seat is kept while disconnected.
        grace_ms: u32,
    },
    /// A participant's mutes changed.
    Muted {
        /// The participant.
        participant: Id,
        /// The mutes.
        mutes: Mutes,
    },
    /// A participant published a stream.
    Published {
        /// The participant.
        participant: Id,
        /// The stream's number.
        stream_id: u32,
        /// The stream.
        stream: Stream,
    },
    /// A participant stopped publishing a stream.
    Unpublished {
        /// The participant.
        participant: Id,
        /// The stream's number.
        stream_id: u32,
    },
    /// A participant raised or lowered its hand.
    Hand {
        /// The participant.
        participant: Id,
        /// When it was raised; `None` if it was lowered.
        raised_at: Option<Wall>,
    },
    /// A chat message.
    Chat {
        /// The sender.
        participant: Id,
        /// The sender's name.
        name: String,
        /// The text.
        text: String,
        /// When it was sent.
        at: Wall,
    },
    /// Application data.
    Data {
        /// The sender.
        participant: Id,
        /// The topic.
        topic: String,
        /// The payload.
        payload: Bytes,
        /// The receivers; empty for all participants.
        to: Vec<Id>,
    },
    /// The meeting ended.
    Ended {
        /// The reason.
        reason: String,
    },
}

/// Why a participant left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaveReason {
    /// The participant left.
    Voluntary,
    /// A host removed the participant.
    Kicked,
    /// The meeting ended.
    MeetingEnded,
    /// The participant did not reconnect in time.
    Timeout,
}

/// The participants that receive an event's content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Audience {
    /// All participants.
    All,
    /// These participants. The others only receive the event's number.
    Some(Vec<Id>),
}

impl Audience {
    /// Whether the participant receives the content.
    pub fn contains(&self, participant: Id) -> bool {
        match self {
            Self::All => true,
            Self::Some(these) => these.contains(&participant),
        }
    }
}

impl Event {
    /// A seat's presence as an event.
    pub(super) fn presence(seat: &Seat, grace_ms: u32) -> Self {
        let connected = seat.presence == Presence::Connected;
        let grace_ms = if connected { 0 } else { grace_ms };
        Self::Presence { participant: seat.participant, connected, grace_ms }
    }

    /// The participants that receive the content.
    pub fn audience(&self) -> Audience {
        match self {
            Self::Data { participant, to, .. } if !to.is_empty() => {
                Audience::Some(to.iter().copied().chain([*participant]).collect())
            }
            _ => Audience::All,
        }
    }

    /// The approximate size in bytes.
    pub(super) fn size_estimate(&self) -> usize {
        256 + match self {
            Self::Chat { text, .. } => text.len(),
            Self::Data { payload, topic, .. } => payload.len() + topic.len(),
            Self::Joined(profile) => profile.name.len() + profile.user.len(),
            _ => 0,
        }
    }
}

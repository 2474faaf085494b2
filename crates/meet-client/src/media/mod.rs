//! The media of a participant: raw frames to and from the media handlers of its meeting.
//!
//! [`MediaClient`] holds a session with each handler that the controller names. One of them is active and carries
//! media; another one stands by. Publications and subscriptions are known to both, so the second takes over at once
//! when the first is silent for 350 ms, closes or drains.
//!
//! - A [`VideoPublication`] has a [`RenditionSender`] per rendition. An [`AudioPublication`] sends to all sessions.
//! - A [`VideoSubscription`] yields [`VideoFrame`]s in the order in which a decoder takes them. An
//!   [`AudioSubscription`] yields each packet of every speaker once.
//! - What handlers ask for and report is state, not a queue: [`Demand`], [`TrackState`] and [`MediaState`] can be
//!   watched, and the latest value counts.
//! - [`MediaController`] is the controller of the meeting: it supplies grants and takes reports.
//!   [`Client::open_media`](crate::Client::open_media) connects it with a participant.
//!
//! `link` is the loop that owns sessions, publications and subscriptions. Decisions are pure and have table tests:
//! `failover`, `order`, `voice`.

mod client;
pub(crate) mod controller;
mod failover;
mod inbox;
mod link;
mod order;
mod publication;
mod receive;
mod session;
mod subscription;
mod voice;

use tenure_meet_wire::media::message::{HandlerReport, Rendition, Subscribed};
use tenure_meet_wire::signaling::{ErrorCode, ErrorMessage};

pub use client::{MediaClient, MediaOptions};
pub use controller::MediaController;
pub use inbox::{AudioStats, ReceivedPacket, VideoFrame, VideoStats};
pub use publication::{
    AudioPublication, Demand, NotSent, OutgoingFrame, OutgoingPacket, RenditionSender, VideoFormat,
    VideoPublication,
};
pub use subscription::{AudioSubscription, TrackState, VideoRequest, VideoSubscription};

/// Limits of the media of a participant.
pub mod limits {
    use std::time::Duration;

    /// Without a byte for this long, the active session gives way to another one.
    pub const SILENCE: Duration = Duration::from_millis(350);
    /// Without a byte for this long, a session is closed although there is no other one.
    pub const LONE_SILENCE: Duration = Duration::from_secs(5);
    /// How long the old session stays open after another one became active.
    pub const LINGER: Duration = Duration::from_secs(2);
    /// Interval of checks for silence.
    pub const CHECK: Duration = Duration::from_millis(50);
    /// Timeout of a session until it is welcomed.
    pub const DIAL: Duration = Duration::from_secs(5);
    /// A grant is not used when it is older. It is good for 60 s from its issue.
    pub const GRANT_LIFE: Duration = Duration::from_secs(50);
    /// Minimum interval between requests for grants.
    pub const GRANT_REQUEST: Duration = Duration::from_secs(2);
    /// A track that ended or was refused is subscribed again after this time.
    pub const SUBSCRIBE_AGAIN: Duration = Duration::from_secs(1);
    /// Interval of reports to handlers.
    pub const REPORT: Duration = Duration::from_secs(1);
    /// Timeout of sending one frame. The rest of its group is abandoned.
    pub const SEND: Duration = Duration::from_secs(1);
    /// Loss, in permille, from which packets carry the previous one as well.
    pub const REDUNDANCY_FROM: u32 = 20;
    /// Commands of the caller that wait.
    pub const COMMANDS: usize = 64;
    /// Events of all sessions that wait.
    pub const EVENTS: usize = 1_024;
    /// Requests of a session that wait.
    pub const REQUESTS: usize = 256;
    /// Sessions at once: two named ones, and two that are on their way out.
    pub const SESSIONS: usize = 4;
    /// Incoming groups of a session at once.
    pub const GROUPS: usize = 192;
    /// Streams of an alias that was not announced yet wait this long.
    pub const UNNAMED_STREAM: Duration = Duration::from_secs(1);
    /// Datagrams of an alias that was not announced yet wait this long.
    pub const UNNAMED_DATAGRAM: Duration = Duration::from_millis(200);
    /// Datagrams of such aliases that wait.
    pub const UNNAMED_DATAGRAMS: usize = 32;
    /// Frames of a subscription that the caller has not taken.
    pub const FRAMES: usize = 256;
    /// Audio packets that the caller has not taken.
    pub const PACKETS: usize = 512;
    /// Audio tracks whose sequences are followed.
    pub const VOICES: usize = 512;
    /// A longer jump in the time of a track is a pause of the speaker, not a loss.
    pub const TALK_SPURT: Duration = Duration::from_millis(200);
}

/// The media client is closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the media client is closed")]
pub struct MediaClosed;

/// A track of the meeting.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TrackName {
    /// The participant that publishes it.
    pub participant_id: String,
    /// The stream of that participant.
    pub stream_id: String,
}

impl TrackName {
    fn of(subscribed: &Subscribed) -> Self {
        Self { participant_id: subscribed.participant_id.clone(), stream_id: subscribed.stream_id.clone() }
    }
}

/// How a handler describes a track.
#[derive(Clone, PartialEq, Debug)]
pub struct TrackDescription {
    /// The WebCodecs codec string. Empty while nothing is published.
    pub codec: String,
    /// The renditions; index 0 is the lowest.
    pub renditions: Vec<Rendition>,
    /// When the publisher began this stream, in Unix milliseconds.
    pub incarnation: u64,
}

/// A handler refused a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The stable code.
    pub code: ErrorCode,
    /// The message.
    pub message: String,
}

impl From<&ErrorMessage> for Refusal {
    fn from(error: &ErrorMessage) -> Self {
        Self { code: error.code(), message: error.message.clone() }
    }
}

/// What a host muted of this participant, as the active handler enforces it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EnforcedMute {
    /// All audio.
    pub audio: bool,
    /// Camera and screen.
    pub video: bool,
    /// Rises with every change.
    pub epoch: u64,
}

/// A participant that speaks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Speaker {
    /// The participant.
    pub participant_id: String,
    /// 0 to 126 is -dBov, 127 is silence.
    pub level: u8,
}

/// The state of the sessions, and what the active handler reported last.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct MediaState {
    /// The URL of the handler that carries media.
    pub active: Option<String>,
    /// The URLs of the handlers that stand by.
    pub standby: Vec<String>,
    /// How often another session became active, the first time included.
    pub activations: u64,
    /// Why the latest session ended, if one did.
    pub lost: Option<String>,
    /// The mute of this participant.
    pub mute: EnforcedMute,
    /// The loudest participants, loudest first.
    pub speakers: Vec<Speaker>,
    /// The latest report of the active handler.
    pub report: Option<HandlerReport>,
    /// Why a handler announced that it goes away, if the active one did.
    pub goaway: Option<String>,
    /// The latest refusal of a request.
    pub refused: Option<Refusal>,
}

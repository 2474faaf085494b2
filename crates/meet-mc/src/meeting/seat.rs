//! A seat: a participant's place in a meeting, kept while its connection is lost.

use std::collections::BTreeMap;

use tenure_lease::{Tick, Wall};
use tenure_meet_wire::Id;
use tenure_meet_wire::binding::Nonce;
use tenure_meet_wire::seq::Applied;

/// A participant's role.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Controls the meeting.
    Host,
    /// A participant with an account.
    Participant,
    /// A participant without an account.
    Guest,
}

impl Role {
    const ALL: [Self; 3] = [Self::Host, Self::Participant, Self::Guest];

    /// The name in stored rows.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Participant => "participant",
            Self::Guest => "guest",
        }
    }

    /// What the role may do with media.
    pub const fn media_rights(self) -> MediaRights {
        match self {
            Self::Host | Self::Participant | Self::Guest => {
                MediaRights { send_audio: true, send_video: true, receive: true }
            }
        }
    }

    /// The role of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == name)
    }
}

/// What a participant may do with media, apart from mutes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MediaRights {
    /// Send audio.
    pub send_audio: bool,
    /// Send video and screens.
    pub send_video: bool,
    /// Receive the media of others.
    pub receive: bool,
}

/// Whether a participant is connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// Connected.
    Connected,
    /// The connection is lost; the seat is kept.
    Disconnected {
        /// When the connection was lost, for the next owner.
        since: Wall,
        /// When the seat is removed, on this owner's clock.
        until: Tick,
    },
}

/// Mutes of a participant. Self-mutes are published only; host mutes are enforced.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Mutes {
    /// The participant muted its microphone.
    pub audio_self: bool,
    /// The participant muted its camera.
    pub video_self: bool,
    /// A host muted the microphone.
    pub audio_host: bool,
    /// A host muted the camera.
    pub video_host: bool,
    /// The user that muted it last as host.
    pub by: Option<String>,
    /// The host's reason.
    pub reason: String,
    /// The meeting's mute epoch at the last change of a host mute.
    pub epoch: u64,
}

/// An unanswered request to be unmuted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnmuteRequest {
    /// The microphone.
    pub audio: bool,
    /// The camera.
    pub video: bool,
    /// When the request lapses.
    pub until: Tick,
}

/// The kind of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamKind {
    /// A microphone.
    Audio,
    /// A camera.
    Video,
    /// A shared screen.
    Screen,
}

impl StreamKind {
    const ALL: [Self; 3] = [Self::Audio, Self::Video, Self::Screen];

    /// The name in stored rows.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Audio => "audio",
            Self::Video => "video",
            Self::Screen => "screen",
        }
    }

    /// The kind of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// A published stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stream {
    /// The kind of media.
    pub kind: StreamKind,
    /// Application metadata.
    pub metadata: String,
}

/// A subscribed layout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The layout type's number on the wire.
    pub kind: i32,
    /// The layout's parameters.
    pub config: LayoutConfig,
    /// Streams requested by number.
    pub streams: Vec<u32>,
}

/// The parameters of a layout.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LayoutConfig {
    /// Rows of the grid.
    pub rows: u32,
    /// Columns of the grid.
    pub columns: u32,
    /// Maximum number of streams.
    pub max_streams: u32,
    /// Users shown first.
    pub pinned: Vec<String>,
    /// Users not shown.
    pub excluded: Vec<String>,
    /// Prefer cameras to screens.
    pub prefer_video: bool,
    /// Show the participant itself.
    pub include_self: bool,
}

/// The binding of a seat to its last connection, proven by a resume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Binding {
    /// The correlation id of that connection.
    pub correlation: Id,
    /// The nonce of its binding token.
    pub nonce: Nonce,
    /// The binding spent for this one.
    pub previous: Option<PreviousBinding>,
}

/// A spent binding, kept to answer a retransmission of the resume that spent it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreviousBinding {
    /// Its correlation id.
    pub correlation: Id,
    /// Its nonce.
    pub nonce: Nonce,
    /// The attempt that spent it.
    pub attempt: String,
    /// When it was spent.
    pub at: Wall,
}

/// A participant's seat.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seat {
    /// The participant's id.
    pub participant: Id,
    /// The user. A user may have several seats.
    pub user: String,
    /// The name shown to others.
    pub name: String,
    /// The role.
    pub role: Role,
    /// When the participant joined.
    pub joined_at: Wall,
    /// Whether the participant is connected.
    pub presence: Presence,
    /// Rises with every connection. Inputs of earlier connections are ignored.
    pub epoch: u64,
    /// The mutes.
    pub mutes: Mutes,
    /// The open unmute request.
    pub unmute_request: Option<UnmuteRequest>,
    /// Published streams, by number.
    pub streams: BTreeMap<u32, Stream>,
    /// The subscribed layout.
    pub layout: Option<Layout>,
    /// The highest sequence number of an applied request.
    pub applied: Applied,
    /// When the participant raised its hand.
    pub hand_raised_at: Option<Wall>,
    /// The binding for the next resume.
    pub binding: Binding,
}

/// A seat as other participants see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    /// The participant's id.
    pub participant: Id,
    /// The user.
    pub user: String,
    /// The name shown to others.
    pub name: String,
    /// The role.
    pub role: Role,
    /// When the participant joined.
    pub joined_at: Wall,
    /// Whether the participant is connected.
    pub connected: bool,
    /// The mutes.
    pub mutes: Mutes,
    /// Published streams, by number.
    pub streams: BTreeMap<u32, Stream>,
    /// When the participant raised its hand.
    pub hand_raised_at: Option<Wall>,
}

impl Seat {
    /// The seat as other participants see it.
    pub fn profile(&self) -> Profile {
        Profile {
            participant: self.participant,
            user: self.user.clone(),
            name: self.name.clone(),
            role: self.role,
            joined_at: self.joined_at,
            connected: self.presence == Presence::Connected,
            mutes: self.mutes.clone(),
            streams: self.streams.clone(),
            hand_raised_at: self.hand_raised_at,
        }
    }

    /// Whether the connection of this epoch is the current one.
    pub fn is_connected_with(&self, epoch: u64) -> bool {
        self.epoch == epoch && self.presence == Presence::Connected
    }
}

//! A seat: somebody in a meeting, connected or about to come back.

use std::collections::BTreeMap;

use lease::{Tick, Wall};
use meet_wire::Id;
use meet_wire::binding::Nonce;
use meet_wire::seq::Applied;

/// What somebody may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Leads: mutes, sends away, ends.
    Host,
    /// Takes part.
    Participant,
    /// Takes part without an account.
    Guest,
}

/// Whether somebody is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// Connected.
    Here,
    /// The connection is lost, the seat is kept.
    Away {
        /// Since when, for who reads the record later.
        since: Wall,
        /// Until when, on the owner's clock.
        until: Tick,
    },
}

/// Who is muted by whom. Self-mutes are told and not enforced; a host's are enforced.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Mutes {
    /// The participant's own microphone.
    pub audio_self: bool,
    /// The participant's own camera.
    pub video_self: bool,
    /// By a host.
    pub audio_host: bool,
    /// By a host.
    pub video_host: bool,
    /// The user who did that last.
    pub by: Option<String>,
    /// Why, in the host's words.
    pub reason: String,
    /// The meeting's mute epoch at the last change of what a host enforces.
    pub epoch: u64,
}

/// A wish to be unmuted that no host has answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// The microphone.
    pub audio: bool,
    /// The camera.
    pub video: bool,
    /// When it lapses.
    pub until: Tick,
}

/// What a stream shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamKind {
    /// Sound.
    Audio,
    /// A camera.
    Video,
    /// A screen.
    Screen,
}

/// Something that a participant publishes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stream {
    /// What it shows.
    pub kind: StreamKind,
    /// What the application says about it.
    pub metadata: String,
}

/// What a participant wants to see.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The number of the layout's type on the wire.
    pub kind: i32,
    /// How it is filled.
    pub config: LayoutConfig,
    /// Streams asked for by name.
    pub streams: Vec<u32>,
}

/// How a layout is filled.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct LayoutConfig {
    /// Rows of a grid.
    pub rows: u32,
    /// Columns of a grid.
    pub columns: u32,
    /// The most streams.
    pub max_streams: u32,
    /// Users that come first.
    pub pinned: Vec<String>,
    /// Users that are left out.
    pub excluded: Vec<String>,
    /// Cameras before screens.
    pub prefer_video: bool,
    /// The participant as well.
    pub include_self: bool,
}

/// What proves that somebody who comes back is who left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Binding {
    /// The connection that the token was given to.
    pub correlation: Id,
    /// The token's one-time part.
    pub nonce: Nonce,
    /// What was spent for the present one.
    pub previous: Option<Previous>,
}

/// A spent binding, remembered for a retransmission of the request that spent it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Previous {
    /// Its connection.
    pub correlation: Id,
    /// Its nonce.
    pub nonce: Nonce,
    /// The attempt that spent it.
    pub attempt: String,
    /// When.
    pub at: Wall,
}

/// Somebody in a meeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seat {
    /// The seat.
    pub participant: Id,
    /// The person; the same person may have several.
    pub user: String,
    /// The name that others see.
    pub name: String,
    /// What the person may do.
    pub role: Role,
    /// Since when.
    pub joined_at: Wall,
    /// Whether somebody is there.
    pub presence: Presence,
    /// Rises with every connection: what an earlier one still says or does harms nobody.
    pub epoch: u64,
    /// Mutes.
    pub mutes: Mutes,
    /// An open wish to be unmuted.
    pub ask: Option<Ask>,
    /// What is published.
    pub streams: BTreeMap<u32, Stream>,
    /// What is wanted.
    pub layout: Option<Layout>,
    /// The greatest request that took effect.
    pub applied: Applied,
    /// The proof for coming back.
    pub binding: Binding,
}

/// A seat as others see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Profile {
    /// The seat.
    pub participant: Id,
    /// The person.
    pub user: String,
    /// The name.
    pub name: String,
    /// What the person may do.
    pub role: Role,
    /// Since when.
    pub joined_at: Wall,
    /// Whether somebody is connected.
    pub here: bool,
    /// Mutes.
    pub mutes: Mutes,
    /// What is published.
    pub streams: BTreeMap<u32, Stream>,
}

impl Seat {
    /// The seat as others see it.
    pub fn profile(&self) -> Profile {
        Profile {
            participant: self.participant,
            user: self.user.clone(),
            name: self.name.clone(),
            role: self.role,
            joined_at: self.joined_at,
            here: self.presence == Presence::Here,
            mutes: self.mutes.clone(),
            streams: self.streams.clone(),
        }
    }

    /// Whether the connection of this epoch is the one that counts.
    pub fn is_here(&self, epoch: u64) -> bool {
        self.epoch == epoch && self.presence == Presence::Here
    }
}

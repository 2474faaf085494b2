//! A meeting as a value. [`apply`] is a pure function from the state and an input to effects.
//!
//! Nothing here waits, writes, reads a clock or draws a random number. The owner of the meeting first persists
//! [`Effects::changes`] as [`Effects::write`] requires, then lets [`Meeting::apply_changes`] update the state, then
//! runs the remaining effects. If the write fails, nothing changes.

mod apply;
mod chat;
mod effect;
mod event;
mod event_log;
mod hand;
mod input;
mod join;
mod kick;
mod layout;
mod mute;
mod phase;
mod request;
mod seat;
mod state;
mod streams;
#[cfg(test)]
mod tests;
mod user;
mod waiting;

pub use apply::{Context, apply};
pub use effect::{Change, DirectMessage, Effect, Effects, Refusal, Welcome, Write};
pub use event::{Audience, Event, LeaveReason};
pub use event_log::{EventLog, LoggedEvent, Replay};
pub use input::{Input, Join, MoveTarget, NewIds, ResumeProof};
pub use layout::{Assignment, assign};
pub use phase::{Phase, Rule, Trigger};
pub use request::Request;
pub use seat::{
    Binding, Layout, LayoutConfig, MediaRights, Mutes, Presence, PreviousBinding, Profile, Role, Seat,
    Stream, StreamKind, UnmuteRequest,
};
pub use state::{HandlerInfo, Meeting, Now, Settings};
pub(crate) use user::banned;
pub use user::{Ban, UserRecord};
pub use waiting::WaitingEntry;

/// Bounds of a meeting.
pub mod limits {
    use std::time::Duration;

    /// How long a seat is kept after its connection is lost, by default.
    pub const GRACE: Duration = Duration::from_secs(30);
    /// How much longer it is kept if its controller died, since the loss was not observed.
    pub const SKEW: Duration = Duration::from_secs(5);
    /// How long a retransmitted resume gets the same answer.
    pub const RETRANSMIT: Duration = Duration::from_secs(5);
    /// How long a spent nonce is remembered.
    pub const NONCE: Duration = Duration::from_secs(35);
    /// How long an unmute request stays open.
    pub const UNMUTE_REQUEST: Duration = Duration::from_secs(60);
    /// How long a meeting without seats is kept.
    pub const EMPTY: Duration = Duration::from_secs(60);
    /// How long a move ticket is valid.
    pub const MOVE_TICKET: Duration = Duration::from_secs(10);
    /// Events kept for replay.
    pub const EVENTS: usize = 1_024;
    /// Bytes of events kept for replay.
    pub const EVENT_BYTES: usize = 4 << 20;
    /// Changes made by one timer input.
    pub const TIMER_CHANGES: usize = 48;
    /// Seats of one user in one meeting.
    pub const SEATS_PER_USER: usize = 8;
    /// Seats of a meeting; settings may lower it.
    pub const SEATS: u32 = 1_000;
    /// Users about whom hosts decided something, in one meeting.
    pub const USERS: usize = 2_000;
    /// Participants that wait for a host.
    pub const WAITING: usize = 100;
    /// Banned users that hosts are shown.
    pub const BANNED: usize = 100;
    /// Participants that one request admits by id.
    pub const ADMITTED: usize = 64;
    /// Streams of one participant.
    pub const STREAMS: usize = 16;
    /// Slots of a layout.
    pub const SLOTS: usize = 64;
    /// Slots of a layout that names no number.
    pub const SLOTS_DEFAULT: usize = 16;
    /// Speakers that are remembered.
    pub const SPEAKERS: usize = 16;
    /// Users and streams named in a layout.
    pub const LAYOUT_NAMES: usize = 64;
    /// Receivers of a data message.
    pub const RECEIVERS: usize = 64;
    /// Bytes of a stream's metadata.
    pub const METADATA: usize = 1_024;
}

//! A meeting as a value, and what events do to it: [`apply`] is a pure function from the state and an event to effects.
//!
//! Nothing here waits, writes, reads a clock or draws a random number. Whoever owns the meeting writes [`Effects::changes`] down first
//! (how long it waits for that is [`Effects::write`]), then lets the state [`Meeting::absorb`] them, then does what is left. If the write
//! does not happen, nothing happened.

mod apply;
mod effect;
mod event;
mod join;
mod journal;
mod mute;
mod phase;
mod seat;
mod state;
mod talk;
#[cfg(test)]
mod tests;

pub use apply::{Context, apply};
pub use effect::{Change, Effect, Effects, Happening, LeaveReason, Refusal, Telling, Welcome, Write};
pub use event::{Event, Fresh, Join, Request, Resume};
pub use journal::{Audience, Entry, Journal, Missed};
pub use phase::Phase;
pub use seat::{
    Ask, Binding, Layout, LayoutConfig, Mutes, Presence, Previous, Profile, Role, Seat, Stream, StreamKind,
};
pub use state::{Handler, Meeting, Now, Settings};

/// Bounds of a meeting, by name.
pub mod limits {
    use std::time::Duration;

    /// How long a seat is kept after its connection is lost, unless settings say otherwise.
    pub const GRACE: Duration = Duration::from_secs(30);
    /// How much longer after a controller died than after a disconnect that it saw.
    pub const SKEW: Duration = Duration::from_secs(5);
    /// How long a retransmission of a resume gets the same answer.
    pub const RETRANSMIT: Duration = Duration::from_secs(5);
    /// How long a spent nonce is remembered.
    pub const NONCE: Duration = Duration::from_secs(35);
    /// How long somebody's wish to be unmuted stands.
    pub const ASK: Duration = Duration::from_secs(60);
    /// How long a meeting without seats is kept.
    pub const EMPTY: Duration = Duration::from_secs(60);
    /// Events kept for those who come back.
    pub const EVENTS: usize = 1_024;
    /// Bytes of events kept, whatever their number.
    pub const EVENT_BYTES: usize = 4 << 20;
    /// Changes that time makes in one step.
    pub const SWEEP: usize = 48;
    /// Seats of one user in one meeting.
    pub const SEATS_PER_USER: usize = 8;
    /// Seats of a meeting, at most and unless settings say less.
    pub const SEATS: u32 = 1_000;
    /// Streams of one participant.
    pub const STREAMS: usize = 16;
    /// Users named in a layout, and streams asked for by name.
    pub const NAMED: usize = 64;
    /// Those whom a data message names.
    pub const TO: usize = 64;
    /// Bytes of the metadata of a stream.
    pub const METADATA: usize = 1_024;
}

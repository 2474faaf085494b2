//! A client of meetings.
//!
//! [`Client::join`] gets a token and an endpoint from a [`JoinApi`], connects with a [`Dial`] and stays until the meeting or the caller
//! ends it. A lost connection is resumed: missed events are replayed, or a full snapshot is sent. [`View`] applies every event once,
//! in order. Requests made while disconnected are queued up to a limit and take effect once.
//!
//! - [`view`] is the state that a participant knows, and [`view::apply`] applies a message to it, without network or clock.
//! - [`media`] sends and receives raw frames through the media handlers of the meeting.
//! - [`join_api`] is the REST API of meetings, or a test double.
//! - Only one request is in flight at a time, so a resume response tells exactly whether it took effect.

mod backoff;
mod client;
mod connection;
mod dial;
mod driver;
pub mod join_api;
pub mod media;
mod options;
mod request;
pub mod view;

pub use client::{Client, Events};
pub use dial::{Dial, Endpoint};
pub use join_api::{JoinApi, JoinApiError};
pub use options::{Ending, Options, State};
pub use request::Refused;
pub use view::{News, View};

use view::News as Told;

/// An event for the application.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// Joined or resumed.
    Connected {
        /// Whether the participant was resumed, as opposed to a new one.
        resumed: bool,
        /// Whether missed events are replayed. Otherwise a snapshot was sent and the chat in between is lost.
        replay: bool,
    },
    /// The connection was lost and the client reconnects.
    Reconnecting {
        /// The reason.
        why: String,
    },
    /// An event of the meeting.
    News {
        /// The event number. Zero for messages to this participant only.
        seq: u64,
        /// Whether the event is persisted, as opposed to only in the controller's memory.
        durable: bool,
        /// The event.
        news: Told,
    },
    /// The client ended. No further event follows.
    Over(Ending),
}

/// Limits of a client.
pub mod limits {
    use std::time::Duration;

    /// Timeout of a connection attempt.
    pub const DIAL: Duration = Duration::from_millis(1_500);
    /// Interval of pings while nothing is received.
    pub const PING: Duration = Duration::from_millis(500);
    /// Silence after which the controller is reported as suspect.
    pub const SUSPECT: Duration = Duration::from_secs(1);
    /// Silence after which the connection is lost.
    pub const SILENCE: Duration = Duration::from_secs(2);
    /// How long the client waits for the decision about a reported controller.
    pub const DECISION: Duration = Duration::from_secs(4);
    /// How long a meeting may be paused before the client asks the join API for its owner, and how often it asks again.
    pub const PAUSED: Duration = Duration::from_secs(3);
    /// Timeout of the response to a first join.
    pub const JOIN: Duration = Duration::from_secs(20);
    /// Timeout of the response to a resume. Shorter than the time in which the controller repeats its response to the same attempt.
    pub const RESUME: Duration = Duration::from_secs(4);
    /// How long a client waits at the controller that its meeting moves to, with its connection.
    pub const PARKED: Duration = Duration::from_secs(8);
    /// How long a client that waits there goes on waiting after it lost the current controller.
    pub const SWITCH: Duration = Duration::from_secs(2);
    /// Timeout of a leave.
    pub const LEAVE: Duration = Duration::from_secs(5);
    /// Pause before a request is retried after `MIGRATING`.
    pub const MIGRATING: Duration = Duration::from_millis(500);
    /// Number of these retries.
    pub const MIGRATING_TRIES: u32 = 120;
    /// First pause before a request is retried after `RATE_LIMITED`. Doubles each time.
    pub const RATE_LIMITED: Duration = Duration::from_secs(1);
    /// Number of these retries.
    pub const RATE_LIMITED_TRIES: u32 = 4;
    /// Longest wait between connection attempts.
    pub const BACKOFF: Duration = Duration::from_secs(5);
    /// First wait between connection attempts.
    pub const BACKOFF_FIRST: Duration = Duration::from_millis(200);
    /// Consecutive token rejections that are treated as expired tokens.
    pub const UNAUTHORIZED_TRIES: u32 = 3;
    /// Unpersisted events that are kept for comparison.
    pub const VOLATILE: usize = 1_024;
}

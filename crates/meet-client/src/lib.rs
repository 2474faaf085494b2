//! A participant of a meeting.
//!
//! [`Client::join`] asks a [`Door`] for a seat's token and place, connects by a [`Dial`] and stays until the meeting or the caller ends it. A
//! connection that is lost is made again with the proof of the seat; what was missed is replayed, or everything is sent anew: [`View`]
//! has seen every event once, in order. Requests that are made meanwhile wait, up to a bound, and take effect once.
//!
//! - [`view`] is what a participant knows, and [`view::apply`] what a message does to it: no network and no clock.
//! - [`door`] is the REST interface of meetings, or whatever a test hands in.
//! - Of requests one is under way at a time, so that the answer to a resume says exactly what became of it.

mod backoff;
mod client;
mod dial;
pub mod door;
mod life;
mod line;
mod options;
mod request;
pub mod view;

pub use client::{Client, Events};
pub use dial::{Dial, Place};
pub use door::{Door, DoorError};
pub use options::{Ending, Options, State};
pub use request::Refused;
pub use view::{News, View};

use view::News as Told;

/// Something that a client is told.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// It has its seat.
    Connected {
        /// The seat that was left, and not a new one.
        resumed: bool,
        /// What was missed follows; otherwise the roster was sent anew and what was said meanwhile is not known.
        replay: bool,
    },
    /// It lost the connection and looks for another.
    Reconnecting {
        /// Why.
        why: String,
    },
    /// Something of the meeting.
    News {
        /// Its place in the meeting; zero for words to this participant only.
        seq: u64,
        /// Written down, and not only in the controller's memory.
        durable: bool,
        /// What.
        news: Told,
    },
    /// It is over for this client; nothing follows.
    Over(Ending),
}

/// Bounds of a client, by name.
pub mod limits {
    use std::time::Duration;

    /// How long a connection may take to be made.
    pub const DIAL: Duration = Duration::from_secs(10);
    /// How long the answer to a first join may take.
    pub const JOIN: Duration = Duration::from_secs(20);
    /// How long the answer to a resume may take: less than the time in which the same attempt gets the same answer.
    pub const RESUME: Duration = Duration::from_secs(4);
    /// How long a leave is waited for.
    pub const LEAVE: Duration = Duration::from_secs(5);
    /// How long after `MIGRATING` a request is sent again.
    pub const MIGRATING: Duration = Duration::from_millis(500);
    /// How often it is.
    pub const MIGRATING_TRIES: u32 = 120;
    /// How long after the first `RATE_LIMITED` a request is sent again; twice as long each time.
    pub const RATE_LIMITED: Duration = Duration::from_secs(1);
    /// How often it is.
    pub const RATE_LIMITED_TRIES: u32 = 4;
    /// The longest wait between two attempts to connect.
    pub const BACKOFF: Duration = Duration::from_secs(5);
    /// The first one.
    pub const BACKOFF_FIRST: Duration = Duration::from_millis(200);
    /// Refused tokens in a row that are taken for old ones.
    pub const UNAUTHORIZED_TRIES: u32 = 3;
    /// Events that were told and not written which are kept to compare.
    pub const VOLATILE: usize = 1_024;
}

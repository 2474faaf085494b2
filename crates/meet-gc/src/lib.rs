//! The global controller of meetings.
//!
//! - [`routes`] are meetings over REST: create, join, guests, settings, reports of controllers that cannot be reached.
//! - [`grpc`] is what meeting controllers and media handlers call: they register, and say how loaded they are.
//! - A node is there while its lease `mc:{id}` or `mh:{id}` is held; a meeting is where the holder of `meeting:{id}` is. The controller
//!   keeps nothing of that by itself: any number of them work on one store, and the lease decides between them.
//!
//! Which nodes are chosen is a pure function (`select`).

#![allow(unused_qualifications, reason = "utoipa's macros qualify what they generate")]

mod announce;
mod assign;
mod book;
mod gc;
mod grpc;
mod http;
mod metric;
mod options;
mod registry;
mod reports;
mod select;
mod sweep;
mod trouble;
mod who;

pub use gc::{Gc, Running};
pub use grpc::grpc;
pub use http::routes;
pub use options::{Invitation, NotSigned, Options, Rules, Seat, Signed, Signer};

/// Bounds of this crate, by name.
pub mod limits {
    use std::time::Duration;

    /// Bytes of a body.
    pub const BODY: usize = 16 * 1024;
    /// Characters of the name of a meeting, at most.
    pub const NAME: usize = 255;
    /// Characters of the name of a guest.
    pub const GUEST_NAME: (usize, usize) = (2, 100);
    /// Participants of a meeting.
    pub const PARTICIPANTS: (u32, u32) = (2, 10_000);
    /// Participants of a meeting, unless told.
    pub const PARTICIPANTS_DEFAULT: u32 = 100;
    /// Characters of a code, of 32 kinds each: 65 bits.
    pub const CODE: usize = 13;
    /// How long the store may take to answer.
    pub const STORE: Duration = Duration::from_secs(10);
    /// How often a write is tried again because somebody else wrote meanwhile.
    pub const WRITES: usize = 8;
    /// How many controllers are asked to take a meeting.
    pub const TRIES: usize = 3;
    /// How long a join waits for the lease of a controller that is gone.
    pub const WAIT: Duration = Duration::from_secs(12);
    /// How often it looks meanwhile.
    pub const LOOK: Duration = Duration::from_millis(500);
    /// How long a controller may take to be told the settings of its meeting.
    pub const ANNOUNCE: Duration = Duration::from_secs(10);
    /// Nodes of one kind that are looked at.
    pub const NODES: usize = 10_000;
    /// How often they are counted.
    pub const COUNT: Duration = Duration::from_secs(15);
    /// How long the load that a node reported holds.
    pub const LOAD: Duration = Duration::from_secs(30);
    /// How often a controller is to say that it lives.
    pub const FAST_HEARTBEAT: Duration = Duration::from_secs(10);
    /// How often it is to say everything.
    pub const COMPREHENSIVE_HEARTBEAT: Duration = Duration::from_secs(30);
    /// How often a handler is to say how loaded it is.
    pub const LOAD_REPORT: Duration = Duration::from_secs(2);
    /// How long an assignment is added to what its node reports.
    pub const RESERVATION: Duration = Duration::from_secs(10);
    /// Streams that a meeting is expected to bring to its handlers.
    pub const STREAMS: u32 = 10;
    /// The share of its capacity from which on a controller gets new meetings only if nobody else can take them.
    pub const BUSY: f64 = 0.85;
    /// How long a report of an unreachable controller counts.
    pub const REPORT: Duration = Duration::from_secs(60);
    /// Seats of a meeting that are read, and reports of it.
    pub const SEATS: usize = 10_000;
    /// How long a controller that was reported may take to answer a probe.
    pub const PROBE: Duration = Duration::from_secs(2);
    /// How often a meeting's activity is noted, at most.
    pub const TOUCH: Duration = Duration::from_secs(300);
    /// Addresses whose guests are counted.
    pub const ADDRESSES: usize = 4_096;
    /// Users whose joins and reports are counted.
    pub const USERS: usize = 16_384;
    /// Reports that a user may make at once, and then one so often.
    pub const REPORTS: (u32, Duration) = (20, Duration::from_secs(3));
    /// Meetings that one sweep looks at.
    pub const SWEEP: usize = 100_000;
}

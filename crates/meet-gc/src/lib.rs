//! The global controller of meetings.
//!
//! - [`routes`] is the REST API: create and join meetings, issue guest tokens, change settings, report unreachable controllers;
//!   for operators, see and move meetings and drain controllers.
//! - [`grpc`] is the API for meeting controllers and media handlers: they register and report their load.
//! - A node is alive while its lease `mc:{id}` or `mh:{id}` is held. A meeting runs on the holder of `meeting:{id}`. A global controller
//!   keeps none of that in memory: any number of them share one store, and the lease decides between them.
//!
//! Node selection is a pure function (`select`).

#![allow(unused_qualifications, reason = "utoipa's macros qualify what they generate")]

mod announce;
mod assign;
mod error;
mod failover;
mod gc;
mod grpc;
mod history;
mod http;
mod identity;
mod meetings;
mod metric;
mod moves;
mod options;
mod orders;
mod probe;
mod reachability;
mod registry;
mod reports;
mod running;
mod select;
mod single_flight;
mod sweep;
mod verdict;

pub use gc::{Gc, Running};
pub use grpc::grpc;
pub use http::routes;
pub use options::{NotSigned, Options, Rules, Signed, Signer};

/// Limits of this crate.
pub mod limits {
    use std::time::Duration;

    /// Maximum request body, in bytes.
    pub const BODY: usize = 16 * 1024;
    /// Maximum length of a meeting name, in characters.
    pub const NAME: usize = 255;
    /// Bounds of a guest name, in characters.
    pub const GUEST_NAME: (usize, usize) = (2, 100);
    /// Bounds of `max_participants`.
    pub const PARTICIPANTS: (u32, u32) = (2, 10_000);
    /// Default of `max_participants`.
    pub const PARTICIPANTS_DEFAULT: u32 = 100;
    /// Length of a meeting code over 32 characters: 65 bits.
    pub const CODE: usize = 13;
    /// Timeout of a store call.
    pub const STORE: Duration = Duration::from_secs(10);
    /// Attempts of a write that conflicts with other writers.
    pub const WRITES: usize = 8;
    /// Controllers tried for one assignment.
    pub const TRIES: usize = 3;
    /// How long a join waits for the lease of a dead controller to expire.
    pub const WAIT: Duration = Duration::from_secs(12);
    /// Poll interval during that wait.
    pub const POLL: Duration = Duration::from_millis(500);
    /// Timeout for pushing settings to a controller.
    pub const ANNOUNCE: Duration = Duration::from_secs(10);
    /// Maximum nodes of one kind that are read.
    pub const NODES: usize = 10_000;
    /// Interval at which nodes are counted.
    pub const COUNT: Duration = Duration::from_secs(3);
    /// How long a reported load is valid.
    pub const LOAD: Duration = Duration::from_secs(30);
    /// Heartbeat interval of a controller.
    pub const FAST_HEARTBEAT: Duration = Duration::from_secs(10);
    /// Interval of a controller's full reports.
    pub const COMPREHENSIVE_HEARTBEAT: Duration = Duration::from_secs(30);
    /// Load report interval of a handler.
    pub const LOAD_REPORT: Duration = Duration::from_secs(2);
    /// How long an assignment is added to the reported load of its node.
    pub const RESERVATION: Duration = Duration::from_secs(10);
    /// Streams that a meeting is expected to add to its handlers.
    pub const STREAMS: u32 = 10;
    /// Load share above which a controller gets new meetings only as a last resort.
    pub const BUSY: f64 = 0.85;
    /// Load share below which a controller takes meetings that must leave another one.
    pub const MOVE_FORCED: f64 = 0.95;
    /// Load share below which a controller takes meetings of one that is too full.
    pub const MOVE_REBALANCE: f64 = 0.7;
    /// How long a meeting that was moved for its controller's load stays where it is.
    pub const MOVED: Duration = Duration::from_secs(300);
    /// Candidates of one report of an overloaded controller.
    pub const CANDIDATES: usize = 20;
    /// How long a report of an unreachable controller counts.
    pub const REPORT: Duration = Duration::from_secs(10);
    /// Maximum participants of a meeting that are read, and reports about it.
    pub const SEATS: usize = 10_000;
    /// Timeout of a probe of a reported controller.
    pub const PROBE: Duration = Duration::from_millis(500);
    /// Timeout of a probe through another controller, which allows that one [`PROBE`].
    pub const PROBE_PEER: Duration = Duration::from_millis(700);
    /// How often a probe that failed is made.
    pub const PROBES: usize = 2;
    /// Timeout of the answer to a report.
    pub const DECISION: Duration = Duration::from_secs(3);
    /// Poll interval for the new owner of a meeting that moves.
    pub const MOVE_POLL: Duration = Duration::from_millis(100);
    /// How long a failed probe counts when vanished controllers are counted.
    pub const VANISHED: Duration = Duration::from_secs(10);
    /// How long a controller that is seen no more counts as registered.
    pub const MISSED: Duration = Duration::from_secs(6);
    /// How long a controller that is seen no more is remembered.
    pub const SEEN: Duration = Duration::from_secs(16);
    /// How long the owner of a generation that was found dead is not named again.
    pub const CONDEMNED_FOR: Duration = Duration::from_secs(60);
    /// Dead owners that are remembered.
    pub const CONDEMNED: usize = 10_000;
    /// How long a failed store call suppresses takeovers.
    pub const STORE_FAILING: Duration = Duration::from_secs(3);
    /// Minimum interval between activity updates of a meeting.
    pub const TOUCH: Duration = Duration::from_secs(300);
    /// Addresses tracked by the guest rate limit.
    pub const ADDRESSES: usize = 4_096;
    /// Users tracked by the join and report rate limits.
    pub const USERS: usize = 16_384;
    /// Burst of reports per user, and the interval of further ones.
    pub const REPORTS: (u32, Duration) = (20, Duration::from_secs(3));
    /// Maximum meetings of one page for operators.
    pub const RUNNING: usize = 200;
    /// Maximum meetings per sweep.
    pub const SWEEP: usize = 100_000;
}

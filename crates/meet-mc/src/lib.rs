//! The meeting controller.
//!
//! - [`meeting`] is the state of a meeting and what inputs do to it, as a pure function.
//! - [`Ledger`] persists that state, fenced by the meeting's lease, and restores it under a new owner.
//! - [`actor`] runs meetings: a controller supervises meetings, a meeting supervises connections.
//! - [`SessionAcceptor`] accepts clients, [`grpc`] serves GC and media handlers, [`Peers`] calls them, and
//!   [`ControllerRegistration`] registers the controller at GC.
//! - [`convert`] translates between the wire protocol and the domain.

mod acceptor;
pub mod actor;
mod breaker;
pub mod convert;
mod grants;
mod grpc;
mod keys;
mod latency;
mod ledger;
pub mod meeting;
mod metric;
mod move_calls;
mod peers;
mod rate_limit;
mod registration;
mod rows;

pub use acceptor::{AcceptLimits, PATH, PendingPermit, SessionAcceptor};
pub use breaker::CircuitBreaker;
pub use grpc::{HandlerLoads, SeatTimeouts, capacity, grpc, health};
pub use keys::MeetingKeys;
pub use latency::LatencyWindow;
pub use ledger::{ControllerState, DoubtOutcome, Ledger, LedgerError};
pub use peers::Peers;
pub use rate_limit::RateLimit;
pub use registration::{ControllerRegistration, UsageProbe};

//! The meeting controller.
//!
//! - [`meeting`] is what a meeting is and what events do to it, as a pure function.
//! - A [`Ledger`] writes that down, fenced by the lease of the meeting, and takes over what another controller left.
//! - [`actor`] is who owns a meeting while it runs: a controller over meetings over connections.
//! - [`Front`] takes clients in, [`grpc`] is what the other parts of the service ask for, [`Peers`] and [`Attendance`] what they are asked and told.
//! - [`convert`] is where words of the wire become words of meetings.

pub mod actor;
mod attendance;
mod breaker;
pub mod convert;
mod front;
mod grpc;
mod keys;
mod ledger;
pub mod meeting;
mod metric;
mod peers;
mod pulse;
mod rate;
mod rows;

pub use attendance::{Attendance, Vitals};
pub use breaker::Breaker;
pub use front::{Front, PATH, Room};
pub use grpc::{Loads, Times, capacity, grpc, health};
pub use keys::Keys;
pub use ledger::{Desk, Ledger, LedgerError};
pub use peers::Peers;
pub use pulse::Pulse;
pub use rate::Rate;

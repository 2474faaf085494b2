//! The meeting controller.
//!
//! - [`meeting`] is what a meeting is and what events do to it, as a pure function.
//! - A [`Ledger`] writes that down, fenced by the lease of the meeting, and takes over what another controller left.
//! - [`actor`] is who owns a meeting while it runs: a controller over meetings over connections.
//! - [`convert`] is where words of the wire become words of meetings.

pub mod actor;
mod breaker;
pub mod convert;
mod keys;
mod ledger;
pub mod meeting;
mod metric;
mod rows;

pub use breaker::Breaker;
pub use keys::Keys;
pub use ledger::{Desk, Ledger, LedgerError};

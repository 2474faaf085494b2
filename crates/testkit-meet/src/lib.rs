//! Meetings for tests: the real controller on a real store, over connections that a test can cut.
//!
//! - [`Venue`] is a controller with one meeting, reached over memory or over QUIC.
//! - [`Cables`] is how clients reach venues in memory; a test cuts them, or lets nobody through.
//! - [`Mishap`] is a store that loses writes, or their answers, when a test says so.
//! - [`Usher`] is a door that signs good tokens, says where the meeting is, and fails when a test says so.

mod cables;
mod mishap;
mod usher;
mod venue;

pub use cables::Cables;
pub use mishap::{Fate, Mishap};
pub use usher::Usher;
pub use venue::{MEETING, Seats, Venue, signing_key};

//! Meetings for tests: the real controller on a real store, over connections that a test can cut.
//!
//! - [`TestMeeting`] is a controller with one meeting, reachable in memory or over QUIC.
//! - [`TestHandlers`] are real media handlers, reachable in memory or over QUIC.
//! - [`FlakyTransport`] connects clients to test meetings in memory; a test cuts connections or refuses new ones.
//! - [`FaultyStore`] loses writes or their replies on demand.
//! - [`LocalControllers`] lets the controllers of a test move meetings to each other.
//! - [`ScriptedJoinApi`] issues valid tokens, returns the meeting's endpoint, and fails on demand.

mod controllers;
mod faulty_store;
mod handler;
mod join_api;
mod meeting;
mod transport;

pub use controllers::{LocalControllers, MoveCall};
pub use faulty_store::{FaultyStore, WriteFault};
pub use handler::{TestHandler, TestHandlers};
pub use join_api::ScriptedJoinApi;
pub use meeting::{MEETING, TestMeeting, TestTokens, signing_key};
pub use transport::FlakyTransport;

//! Clients of a real controller: in memory under virtual time, and over QUIC.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends in a panic")]

mod door;
mod house;
mod loss;
mod network;
mod page;
mod party;
mod people;
mod script;

//! Calls between parts of meetings: over the network and inside the process.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends in a panic")]

mod gate;
mod house;
mod lines;
mod node;
mod tokens;

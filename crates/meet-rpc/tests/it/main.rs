//! Calls between the roles of meetings, over the network and inside the process.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic on failure")]

mod channels;
mod gate;
mod harness;
mod node;
mod tokens;

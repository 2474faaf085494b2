//! The ledger and the actors on real engines: memory under virtual time, and Redis.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends in a panic")]

mod actors;
mod api;
mod faults;
mod fixture;
mod harness;
mod hosts;
mod ledger;
mod media;
mod network;
mod outage;
mod peers;
mod redis;
mod settings;

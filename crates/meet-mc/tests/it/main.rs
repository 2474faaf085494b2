//! The ledger and the actors on real engines: memory under virtual time, and Redis.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends in a panic")]

mod actors;
mod club;
mod faces;
mod faults;
mod house;
mod ledger;
mod media;
mod mishap {
    pub(crate) use testkit_meet::{Fate, Mishap};
}
mod neighbours;
mod network;
mod redis;
mod settings;

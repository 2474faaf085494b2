//! A global controller with its REST door on a port of its own, and controllers that do what they are told.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends in a panic")]

mod assignment;
mod guests;
mod house;
mod meetings;
mod nodes;
mod openapi;
mod registry;
mod reports;
mod settings;
mod sweep;
mod users;

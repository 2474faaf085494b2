//! A global controller with its REST server on a free port, and scripted controllers.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic on failure")]

mod admin;
mod assignment;
mod failover;
mod guests;
mod meetings;
mod nodes;
mod openapi;
mod registry;
mod reports;
mod settings;
mod sweep;
mod test_gc;
mod users;

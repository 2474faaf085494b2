//! A media handler as controllers, clients and GC see it, under virtual time.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends in a panic")]

mod clients;
mod controllers;
mod harness;
mod registry;

//! A media handler as controllers, clients and GC see it, under virtual time.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends in a panic")]

mod audio;
mod client;
mod controllers;
mod harness;
mod load;
mod mute;
mod quic;
mod registry;
mod relay;
mod sessions;
mod slow;
mod speakers;
mod standby;
mod video;

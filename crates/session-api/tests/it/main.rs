//! The door over a real server, with a world behind it that counts and can fail.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

mod events;
mod heartbeat;
mod hls;
mod house;
mod intents;
mod lan;
mod openapi;
mod phase1;
mod refusals;
mod sessions;
mod stop;
mod trouble;
mod world;

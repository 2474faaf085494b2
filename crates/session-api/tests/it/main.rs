//! The door over a real server, with a world behind it that counts and can fail.
#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

mod events;
mod heartbeat;
mod hls;
mod house;
mod intents;
mod lan;
mod openapi;
mod phase1;
mod refusals;
mod room;
mod sessions;
mod stop;
mod trouble;
mod world;

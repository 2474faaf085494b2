//! The session API on a real server, over in-memory ports that count calls and inject faults.
#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

mod api;
mod capacity;
mod events;
mod heartbeat;
mod hls;
mod intents;
mod lan;
mod openapi;
mod phase1;
mod ports;
mod rejections;
mod sessions;
mod stop;
mod store_failures;

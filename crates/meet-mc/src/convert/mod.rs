//! The only place where messages of the signaling protocol become domain values and back.
//!
//! - `messages`: requests of clients, and events as clients and the log see them. A new message is added here.
//! - `join`: the first message of a client and its answer.
//! - `direct`: messages to one participant, and refusals.

mod direct;
mod join;
mod messages;
#[cfg(test)]
mod tests;

pub use direct::{
    assignments_to_wire, direct_to_wire, error_code, error_payload, media_server, refusal_to_wire,
};
pub use join::{UnverifiedJoin, join_from_wire, welcome_to_wire};
pub use messages::{
    event_from_wire, event_to_wire, media_connections, participant_to_wire, request_from_wire,
};

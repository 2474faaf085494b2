//! Polling with real processes and a real Redis.
//!
//! The tests poll an HTTP server of their own. Requests carry the node's instance id and generation, so that the
//! server can prove ownership: in order of arrival a target's generation never decreases, no generation has two
//! owners, and requests of different generations never overlap.

mod cluster;
mod endpoint;
mod events;
mod faults;
mod interface;
mod remote;
mod seed_node;
mod stories;

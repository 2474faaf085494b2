//! The stories of polling, with real processes and a real Redis.
//!
//! An HTTP server of the test's own is what is polled. Requests carry the node's instance id and its generation, so
//! what arrives proves who believed to own what: in the order of arrival no target's generation ever falls, no
//! generation has two owners, and requests under different generations never overlap.

mod cluster;
mod endpoint;
mod events;
mod faults;
mod interface;
mod seed_node;
mod stories;

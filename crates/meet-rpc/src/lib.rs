//! Calls between the roles of meetings.
//!
//! - A [`ChannelPool`] resolves endpoints to channels: over the network, or inside this process without a port. Every
//!   call carries a service token and its trace context, and has a deadline.
//! - A [`TokenSource`] supplies service tokens: [`MintedTokens`] next to the authority, or [`FetchedTokens`] with client credentials.
//! - A [`Keyring`] verifies tokens with the keys of the authority, in this process or as published.
//! - A [`NodeInfo`] describes a node in the meta of its lease. [`Kind`] names the node's keys in the store.
//! - [`history`] has the records of moves and drains that operators read.
//! - A [`node`] holds its lease in the registry and reports its state to GC.
//! - The [`Gatekeeper`] guards a service: a caller needs the scope and the service type that the service requires.

mod access;
mod channel;
mod channel_pool;
mod fetched_tokens;
mod gatekeeper;
pub mod history;
mod keyring;
pub mod node;
mod node_info;
mod role;
mod tokens;
mod web;

pub use channel::Channel;
pub use channel_pool::{BadEndpoint, ChannelPool};
pub use fetched_tokens::{Credentials, FetchedTokens, StartError};
pub use gatekeeper::{Gatekeeper, Peer};
pub use keyring::Keyring;
pub use node_info::{Kind, NodeInfo};
pub use role::ServiceRole;
pub use tenure_service::telemetry::Trace;
pub use tokens::{MintedTokens, TokenError, TokenSource};
pub use web::BadAddress;

/// Limits.
pub mod limits {
    use std::time::Duration;

    /// Timeout of a connection attempt.
    pub const CONNECT: Duration = Duration::from_secs(5);
    /// Deadline of a call, including its response.
    pub const CALL: Duration = Duration::from_secs(10);
    /// Cached connections. Beyond this, the least recently used one is closed.
    pub const CHANNELS: usize = 1_024;
    /// Concurrent calls on one connection. Further calls wait.
    pub const CALLS: usize = 256;
    /// Maximum length of a node id, in bytes.
    pub const NODE_ID: usize = 64;
    /// Maximum length of an endpoint, in bytes.
    pub const ENDPOINT: usize = 1_024;
    /// How long published keys are cached.
    pub const KEYS: Duration = Duration::from_secs(300);
    /// Minimum interval between key requests caused by unknown keys or failed requests.
    pub const KEY_RETRY: Duration = Duration::from_secs(10);
    /// Maximum length of a response from the authority, in bytes.
    pub const RESPONSE: usize = 64 * 1024;
    /// Deadline of a request to the authority.
    pub const AUTHORITY: Duration = Duration::from_secs(5);
    /// First and longest pause before a token request is retried.
    pub const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
    /// Shortest and longest wait for the rest of a registry lease that another process holds.
    pub const LEASE_REST: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(30));
    /// Bounds of the report interval that GC may set.
    pub const REPORT_INTERVAL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(300));
    /// Attempts to reach the authority before the start continues without a token.
    pub const START_ATTEMPTS: usize = 3;
    /// Moves and failovers that operators can look back at.
    pub const MOVES: usize = 50;
    /// How long the progress of a drain can be read.
    pub const DRAIN_RECORD: Duration = Duration::from_secs(24 * 3_600);
}

//! How the parts of meetings call each other.
//!
//! - [`Lines`] lead from an endpoint to whoever answers there: over the network, or inside this process, where no port is opened. Every
//!   call carries a service token and the trace that it belongs to, and ends in time.
//! - [`Tokens`] are where the service tokens come from: [`Minted`] next to the authority, or [`Fetched`] from it with client credentials.
//! - A [`Keyring`] checks tokens: with the keys of the authority in this process, or with those that it publishes.
//! - A [`Card`] is what a node says about itself in the meta of its lease; [`Kind`] has its names in the store.
//! - A [`node`] holds its place in the registry and tells GC how it is.
//! - The [`Gatekeeper`] stands in front of a service: who calls must have its scope, and be the part that may call it.

mod access;
mod card;
mod fetched;
mod gatekeeper;
mod keyring;
mod line;
mod lines;
pub mod node;
mod part;
mod tokens;
mod web;

pub use card::{Card, Kind};
pub use fetched::{Credentials, Fetched, StartError};
pub use gatekeeper::{Gatekeeper, Peer};
pub use keyring::Keyring;
pub use line::Line;
pub use lines::{BadEndpoint, Lines};
pub use part::Part;
pub use service::telemetry::Trace;
pub use tokens::{Minted, NoToken, Tokens};
pub use web::BadAddress;

/// Bounds, by name.
pub mod limits {
    use std::time::Duration;

    /// How long connecting may take.
    pub const CONNECT: Duration = Duration::from_secs(5);
    /// How long a call may take, its answer included.
    pub const CALL: Duration = Duration::from_secs(10);
    /// Connections that are kept; beyond, the one that was not used for longest is let go.
    pub const LINES: usize = 1_024;
    /// Calls under way on one connection; more wait.
    pub const CALLS: usize = 256;
    /// The longest id of a node, in bytes.
    pub const NODE_ID: usize = 64;
    /// The longest endpoint, in bytes.
    pub const ENDPOINT: usize = 1_024;
    /// How long published keys are kept without asking again.
    pub const KEYS: Duration = Duration::from_secs(300);
    /// How often a token of an unknown key, or a key set that cannot be had, makes us ask again at most.
    pub const ASK_AGAIN: Duration = Duration::from_secs(10);
    /// The longest answer of the authority, in bytes.
    pub const ANSWER: usize = 64 * 1024;
    /// How long the authority may take.
    pub const AUTHORITY: Duration = Duration::from_secs(5);
    /// The first and the longest pause before a token is asked for again.
    pub const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
    /// How often a node may be told to report, at most and at least.
    pub const DUTY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(300));
    /// How often an authority that cannot be reached is asked before a start goes on without a token.
    pub const FIRST_TRIES: usize = 3;
}

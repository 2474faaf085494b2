//! Polling: many replicas, each endpoint polled once.
//!
//! Every replica runs one [`Node`]. Targets are the records `session:{id}` in the store; each has a lease
//! `poll:lease:{id}`, and only the node that holds it polls. [`plan`] says, from who lives and who has what, which
//! leases to take, to keep and to hand on; the node's one loop does it. Before every request a permit is taken
//! from the lease: no permit, no request.
//!
//! Keys in the store, as nodes of the original poller write and read them: `session:{id}` (JSON), `poll:lease:{id}`
//! (the owner's instance id), `poll:node:{instance}` (`1`, with a TTL). Ours beside them: `poll:about:{instance}`,
//! `poll:survey`, and per target the record `poll:latest:{id}`, the log `poll:log:{id}` and the channel
//! `poll:results:{id}`.

mod alarm;
mod book;
mod events;
mod extract;
mod fetch;
mod holding;
mod http;
mod instance;
mod keys;
mod listen;
mod look;
mod node;
pub mod plan;
mod result;
mod runner;
mod schedule;
mod settings;
mod sink;
mod target;
mod tasks;
mod view;
mod worker;

pub use self::http::routes;
pub use instance::instance_id;
pub use node::Node;
pub use settings::{SPECS, Settings, SettingsError};
pub use target::{Target, TargetError};
pub use view::{NodeView, Picture, TargetView};

/// Bounds of this crate, by name.
pub mod limits {
    use std::time::Duration;

    /// Longest id of a target, in bytes.
    pub const ID: usize = 128;
    /// Most bytes of a target's record.
    pub const RECORD: usize = 16 * 1024;
    /// Most headers of a target.
    pub const HEADERS: usize = 32;
    /// Shortest interval between polls of a target.
    pub const INTERVAL_MIN: Duration = Duration::from_millis(10);
    /// Longest interval between polls of a target.
    pub const INTERVAL_MAX: Duration = Duration::from_secs(24 * 3_600);
    /// Most bytes of a body that are kept in a result.
    pub const SHOWN: usize = 64 * 1024;
    /// Results that wait for the store, and for the webhook; beyond, polls wait, and webhook calls are dropped.
    pub const WAITING: usize = 4_096;
    /// Results told in one call.
    pub const TOLD: usize = 64;
    /// Calls to the store with results under way at once.
    pub const TELLING: usize = 4;
    /// Claims under way at once.
    pub const CLAIMS: usize = 256;
    /// Events kept for one listener of the stream.
    pub const STREAM: usize = 1_024;
    /// Targets in one page, and in one import.
    pub const PAGE: usize = 1_000;
    /// How long an ended target's last poll may go on before it is cut off.
    pub const JOIN: Duration = Duration::from_secs(5);
    /// Most targets of one node's picture.
    pub const TARGETS: usize = lease::limits::DISCOVERY;
}

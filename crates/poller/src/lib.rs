//! Polling: many replicas, each endpoint polled once.
//!
//! Every replica runs one [`Node`]. Targets are the records `session:{id}` in the store. Each target has a lease
//! `poll:lease:{id}`, and only the node that holds the lease polls the target. [`plan`] decides from the live nodes
//! and the current owners which leases to acquire, keep and release; the node's event loop carries the plan out.
//! Every request needs a permit from the lease: without a permit, no request is sent.
//!
//! Three key families are shared with nodes of the original poller: `session:{id}` (JSON), `poll:lease:{id}` (the
//! owner's instance id) and `poll:node:{instance}` (`1`, with a TTL). This crate adds `poll:about:{instance}`,
//! `poll:survey`, and for each target the record `poll:latest:{id}`, the log `poll:log:{id}` and the channel
//! `poll:results:{id}`.

mod address_filter;
mod cluster_view;
mod discovery;
mod events;
mod extract;
mod fetch;
mod http;
mod instance;
mod keys;
mod node;
mod owned;
pub mod plan;
mod result;
mod runner;
mod schedule;
mod settings;
mod sink;
mod snapshot;
mod target;
mod tasks;
mod timer;
mod watch;
mod webhook;
mod worker;

pub use self::http::routes;
pub use address_filter::AddressFilter;
pub use instance::instance_id;
pub use node::Node;
pub use settings::{SPECS, Settings, SettingsError};
pub use snapshot::{ClusterSnapshot, NodeView, TargetView};
pub use target::{Target, TargetError};

/// Limits of this crate.
pub mod limits {
    use std::time::Duration;

    /// Maximum length of a target id, in bytes.
    pub const ID: usize = 128;
    /// Maximum size of a target record, in bytes.
    pub const RECORD: usize = 16 * 1024;
    /// Maximum number of headers of a target.
    pub const HEADERS: usize = 32;
    /// Minimum interval between polls of a target.
    pub const INTERVAL_MIN: Duration = Duration::from_millis(10);
    /// Maximum interval between polls of a target.
    pub const INTERVAL_MAX: Duration = Duration::from_secs(24 * 3_600);
    /// Webhook calls in flight, at most one for each origin.
    pub const WEBHOOK_CALLS: usize = 32;
    /// Origins of webhooks with queued results.
    pub const WEBHOOK_ORIGINS: usize = 1_024;
    /// Results queued for one origin. Further results are dropped and counted.
    pub const WEBHOOK_QUEUE: usize = 256;
    /// Maximum size of the value kept in a result, in bytes.
    pub const VALUE: usize = 64 * 1024;
    /// Results queued for the store, and for the webhook. When a queue is full, polls wait and webhook calls are
    /// dropped.
    pub const PENDING_RESULTS: usize = 4_096;
    /// Results published in one store call.
    pub const BATCH: usize = 64;
    /// Concurrent claims.
    pub const CLAIMS: usize = 256;
    /// Events buffered for one subscriber of the event stream.
    pub const STREAM: usize = 1_024;
    /// Targets in one page.
    pub const PAGE: usize = 1_000;
    /// How long the last poll of a stopped target may continue before it is aborted.
    pub const STOP_TIMEOUT: Duration = Duration::from_secs(5);
    /// Maximum number of targets that one node tracks.
    pub const TARGETS: usize = tenure_lease::limits::DISCOVERY;
}

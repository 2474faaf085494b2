//! The session worker: runs TV sessions under leases.
//!
//! A [`Worker`] holds the guard lease, picks up the sessions that the API recorded, acquires the leases of the channel and
//! of a tuner, runs a pipeline while it holds them, and records the outcome. [`StoreSessionLog`] stores sessions in a
//! lease store for the API and the worker. [`LeaseAdmission`] implements phase 1 of the migration.
//!
//! Every record is written with the guard's fence, so a worker that lost the guard cannot write.

mod active;
mod admission;
mod error;
mod guard;
mod identity;
mod keys;
mod launch;
mod leases;
mod options;
mod orchestrator;
mod orphan_processes;
mod output_dir;
mod pattern;
mod pipeline;
mod reconcile;
mod record;
mod recovery;
mod rows;
mod scan;
mod session_log;
mod session_task;
mod state;
mod sweep;
mod telemetry;
mod worker;

pub use admission::LeaseAdmission;
pub use error::WorkerError;
pub use identity::ProcessIdentity;
pub use launch::{Command, Exit, Launcher, Process, SESSION_VARIABLE, StopTimes};
pub use options::{Ffmpeg, Options, Source, default_profiles};
pub use session_log::StoreSessionLog;
pub use worker::{Readiness, Worker};

/// Limits of this crate.
pub mod limits {
    use std::time::Duration;

    /// Most sessions that run or wait for their start; further ones stay in NEW.
    pub const SESSIONS: usize = 20_000;
    /// How long `ffmpeg -version` may take.
    pub const CHECK: Duration = Duration::from_secs(30);
    /// Timeout of a call to the store.
    pub const STORE_CALL: Duration = Duration::from_secs(5);
    /// Longest backoff between attempts of a failed write.
    pub const BACK_OFF: Duration = Duration::from_secs(1);
    /// How much longer than its TTL a guard held by another worker is waited for.
    pub const GUARD_GRACE: Duration = Duration::from_secs(2);
    /// How long the release of the guard may delay the shutdown.
    pub const GUARD_RELEASE: Duration = Duration::from_secs(2);
    /// Default time a killed pipeline may take to exit before its tuner is withheld.
    pub const GONE: Duration = Duration::from_secs(10);
    /// How often a stopping pipeline is checked.
    pub const GONE_POLL: Duration = Duration::from_millis(10);
    /// Default time a session may be in STOPPING before the sweeper ends it.
    pub const STUCK: Duration = Duration::from_secs(60);
    /// How often all sessions are read again even if no change seems to have been missed.
    pub const READ_ALL: Duration = Duration::from_secs(60);
    /// How often the output of a pipeline is checked and its deadline extended.
    pub const OUTPUT_POLL: Duration = Duration::from_millis(200);
    /// How much of the end of a pipeline's log is read, in bytes.
    pub const LOG_TAIL: u64 = 4_096;
    /// Longest message in a record, in bytes.
    pub const MESSAGE: usize = 500;
    /// How long stop requests and access times are stored.
    pub const SIDE_RECORDS: Duration = Duration::from_secs(24 * 3_600);
    /// Most pending requests to reconcile.
    pub const RECONCILE_REQUESTS: usize = 16;
}

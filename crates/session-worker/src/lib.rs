//! The orchestrator of sessions.
//!
//! A [`Worker`] holds the guard of the house, takes up what the door recorded, takes the leases of the channel and of
//! a tuner, runs a pipeline for as long as it holds them, and says in the record what became of it. [`Log`] keeps
//! sessions in a lease store for both sides of the wall, and [`LeaseAdmission`] is phase 1 of the migration.
//!
//! Every record is written with the guard's fence: a worker that lost the guard writes nothing, whatever it believes.

mod admission;
mod desk;
mod fatal;
mod folder;
mod guard;
mod identity;
mod keys;
mod known;
mod launch;
mod leases;
mod leftovers;
mod life;
mod log;
mod metric;
mod options;
mod orchestrator;
mod pattern;
mod pipeline;
mod reconcile;
mod recovery;
mod round;
mod rows;
mod scan;
mod worker;
mod world;

pub use admission::LeaseAdmission;
pub use fatal::Fatal;
pub use identity::Identity;
pub use launch::{Command, Exit, Launcher, Process, SESSION_VARIABLE, Times};
pub use log::Log;
pub use options::{Ffmpeg, Options, Source, default_profiles};
pub use worker::{Readiness, Worker};

/// Bounds of this crate, by name.
pub mod limits {
    use std::time::Duration;

    /// Most sessions that run or wait to be started at once; the others stay NEW until there is room.
    pub const LIVES: usize = 20_000;
    /// How long ffmpeg may take to say that it is there.
    pub const CHECK: Duration = Duration::from_secs(30);
    /// How long one question to the store may take.
    pub const ASK: Duration = Duration::from_secs(5);
    /// The longest pause before a write that failed is tried again.
    pub const BACK_OFF: Duration = Duration::from_secs(1);
    /// How much longer than its TTL a guard of somebody else is waited for.
    pub const GUARD_GRACE: Duration = Duration::from_secs(2);
    /// How long the giving back of the guard may hold up the end.
    pub const GUARD_RELEASE: Duration = Duration::from_secs(2);
    /// How long after a kill a pipeline may take to be gone before its tuner is kept out, unless told.
    pub const GONE: Duration = Duration::from_secs(10);
    /// How often a pipeline that was told to go is looked at.
    pub const GONE_LOOK: Duration = Duration::from_millis(10);
    /// How long a session may be STOPPING before it is swept away, unless told.
    pub const STUCK: Duration = Duration::from_secs(60);
    /// How often everything is read anew though nothing seems to have been missed.
    pub const READ_ALL: Duration = Duration::from_secs(60);
    /// How often the folder of a pipeline is looked at, and its deadline moved.
    pub const LOOK: Duration = Duration::from_millis(200);
    /// How much of a pipeline's log is read for its last words.
    pub const LOG_TAIL: u64 = 4_096;
    /// Longest words in a record, in bytes.
    pub const WORDS: usize = 500;
    /// How long requests beside a session (stop, seen) are kept.
    pub const BESIDE: Duration = Duration::from_secs(24 * 3_600);
    /// How long a withdrawn session's record is still there.
    pub const WITHDRAWN: Duration = Duration::from_secs(60);
    /// Questions to a worker that wait at once.
    pub const QUESTIONS: usize = 16;
}

//! Fatal errors of the worker.

use std::io;
use std::path::Path;

use tenure_keeper::Lost;

/// Why a worker cannot start or continue. The process exits.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WorkerError {
    /// An option is invalid.
    #[error("{field}: {why}")]
    Options {
        /// The option.
        field: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The program of the pipelines cannot be run.
    #[error(
        "cannot run {program} ({why}): install ffmpeg, or set pipeline to \"pattern\" to try sessions without it"
    )]
    Pipeline {
        /// The program.
        program: String,
        /// The error of the operating system.
        why: String,
    },
    /// A directory cannot be used.
    #[error("cannot use directory {dir}: {why}")]
    Directory {
        /// The directory.
        dir: String,
        /// The error of the operating system.
        why: String,
    },
    /// Another worker holds the guard.
    #[error(
        "the guard system:orchestrator:guard_lock is held by {holder}: only one worker may run the sessions of a store"
    )]
    GuardHeld {
        /// The holder.
        holder: String,
    },
    /// The guard is not free, and its holder cannot be determined.
    #[error("the guard system:orchestrator:guard_lock is not free and its holder is unknown: {why}")]
    GuardAmbiguous {
        /// The state that the store reports.
        why: String,
    },
    /// The store failed or did not respond in time.
    #[error("store unavailable: {why}")]
    Store {
        /// The error of the store.
        why: String,
    },
    /// The guard was lost.
    #[error("the guard system:orchestrator:guard_lock was lost ({lost}); all pipelines were stopped")]
    GuardLost {
        /// How it was lost.
        lost: Lost,
    },
    /// The worker's event loop ended unexpectedly.
    #[error("the session worker ended unexpectedly")]
    Ended,
}

impl WorkerError {
    pub(crate) fn options(field: &'static str, why: impl Into<String>) -> Self {
        Self::Options { field, why: why.into() }
    }

    pub(crate) fn directory(dir: &Path, error: &io::Error) -> Self {
        Self::Directory { dir: dir.display().to_string(), why: error.to_string() }
    }

    pub(crate) fn store(error: impl std::fmt::Display) -> Self {
        Self::Store { why: error.to_string() }
    }
}

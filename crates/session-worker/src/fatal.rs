//! Why there is no worker.

use std::io;
use std::path::Path;

use lease_keeper::Lost;

/// What ends a worker, and the process with it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fatal {
    /// The settings cannot be meant.
    #[error("{field}: {why}")]
    Options {
        /// Which setting.
        field: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The program of the pipelines does not start.
    #[error(
        "{program} does not start ({why}): install ffmpeg, or set the pipeline to \"pattern\" to try it without one"
    )]
    Pipeline {
        /// Which program.
        program: String,
        /// What the system says.
        why: String,
    },
    /// A folder cannot be used.
    #[error("{folder} cannot be used: {why}")]
    Folder {
        /// Which.
        folder: String,
        /// What the system says.
        why: String,
    },
    /// Another worker has the guard.
    #[error(
        "the guard system:orchestrator:guard_lock is held by {holder}: one worker at a time runs the sessions of a store"
    )]
    Held {
        /// Who.
        holder: String,
    },
    /// Nobody says who has the guard.
    #[error(
        "the guard system:orchestrator:guard_lock is neither free nor held by anybody that can be named: {why}"
    )]
    Ambiguous {
        /// What the store says.
        why: String,
    },
    /// The store did not answer, or not in time.
    #[error("the store: {why}")]
    Store {
        /// What it says.
        why: String,
    },
    /// The guard is lost.
    #[error("the guard system:orchestrator:guard_lock is lost ({lost}): the pipelines were ended")]
    Lost {
        /// How.
        lost: Lost,
    },
    /// The worker's own loop ended, which it must not.
    #[error("the orchestrator ended by itself")]
    Ended,
}

impl Fatal {
    pub(crate) fn options(field: &'static str, why: impl Into<String>) -> Self {
        Self::Options { field, why: why.into() }
    }

    pub(crate) fn folder(folder: &Path, error: &io::Error) -> Self {
        Self::Folder { folder: folder.display().to_string(), why: error.to_string() }
    }

    pub(crate) fn store(error: impl std::fmt::Display) -> Self {
        Self::Store { why: error.to_string() }
    }
}

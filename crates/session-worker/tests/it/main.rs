//! The session worker with real stores and processes.
#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

mod ffmpeg;
mod fixture;
mod guard;
mod launcher;
mod lease_loss;
mod lifecycle;
mod reconcile;
mod recovery;
mod restart;
mod retention;
mod session_log;
mod stuck_pipelines;

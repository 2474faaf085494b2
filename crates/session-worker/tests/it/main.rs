//! The orchestrator from outside: real stores, real processes, real loss.
#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

mod fail;
mod ffmpeg;
mod guard;
mod house;
mod launcher;
mod life;
mod log;
mod many;
mod process;
mod recovery;
mod stuck;
mod truth;

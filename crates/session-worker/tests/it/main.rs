//! The orchestrator from outside: real stores, real processes, real loss.

mod fail;
mod ffmpeg;
mod guard;
mod house;
mod launcher;
mod life;
mod log;
mod recovery;
mod truth;

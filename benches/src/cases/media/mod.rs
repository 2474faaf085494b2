//! Media: fan-out of video, a mesh, audio, late joins, a stalled reader, memory and mutes.
//!
//! A media handler runs alone in a process that is pinned to one core; the load has the other. The peer is a program
//! that copies what it receives to everyone else over the same transport and does nothing more. Both are measured in
//! turns with the same clients, and the handler runs twice in every lap, as the control.

mod audio;
mod bare;
mod fanout;
mod handler;
mod late;
mod mesh;
mod peer;
mod sides;

pub(crate) use bare::serve as serve_bare;
pub(crate) use handler::serve as serve_handler;

use anyhow::Result;

use super::Bench;

pub(crate) fn run(bench: &Bench<'_>) -> Result<()> {
    fanout::run(bench)?;
    mesh::run(bench)?;
    audio::run(bench)?;
    late::run(bench)
}

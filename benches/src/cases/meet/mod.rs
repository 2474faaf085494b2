//! Meetings: joins, a storm of resumes, fan-out of events, memory per participant.
//!
//! The server is `tenure up --only meet` on a real Redis, pinned to one core; Redis and the load share the other.

mod bare;
mod fanout;
mod join;
mod memory;
mod prosody;
mod resume;
pub(crate) mod server;

pub(crate) use bare::serve as serve_bare;

use anyhow::Result;

use super::Bench;

pub(crate) fn run(bench: &Bench<'_>) -> Result<()> {
    join::run(bench)?;
    resume::run(bench)?;
    fanout::run(bench)?;
    memory::run(bench)
}

//! Engines against real disks, real processes and real servers.
#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

mod clock;
mod conformance;
mod embedded;
mod heir;
mod lead;
mod redis_bell;
mod redis_bench;
mod redis_discovery;
mod redis_fault;
mod redis_heir;
mod redis_layout;
mod redis_mark;
mod redis_queue;

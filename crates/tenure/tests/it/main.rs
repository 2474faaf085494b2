//! The built binary against real stores: the command line, the services, and `tenure run` under faults.

#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

mod bench;
mod control;
mod doctor;
mod harness;
mod lease;
mod loss;
mod meet;
mod metrics;
mod poll;
mod run;
mod server;
mod sessions;
mod shell;
mod stamps;

//! The built binary against real stores: what people and programs see, and what `tenure run` does when things
//! go wrong.

#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

mod bench;
mod control;
mod doctor;
mod lease;
mod loss;
mod meet;
mod poll;
mod rig;
mod run;
mod server;
mod sessions;
mod shell;
mod stamps;

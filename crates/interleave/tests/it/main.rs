//! Every order of the local engines' threads and tasks that a test's budget of schedules reaches.
//!
//! A failure prints its schedule; `shuttle::replay` runs that one again.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test says what it saw and ends in a panic"
)]

mod breaks;
mod duplicates;
mod fixture;
mod stall;
mod waiters;
mod writer;

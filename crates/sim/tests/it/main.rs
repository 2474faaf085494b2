//! The simulator as a whole: that it repeats, that it passes, and that it can fail; and real processes before the
//! same judge.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test says what it saw and ends in a panic"
)]

mod breaks;
mod chaos;
mod meetings;
mod redis_replay;
mod repeat;
mod seeds;

//! Real processes and the judge.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test says what it saw and ends in a panic"
)]

mod chaos;

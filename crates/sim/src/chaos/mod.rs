//! Real processes under real faults.
//!
//! Holders are processes of their own, each behind a proxy of its own in front of one real server. A seeded
//! [`plan`] stops and kills holders and server and mistreats connections, while every holder writes down what it asked,
//! what it was answered, what it was allowed and what it wrote. All clocks are one machine's `CLOCK_BOOTTIME`, so
//! true time is known, and the recorded [`History`](crate::history::History) goes to the judge of the simulations.

mod clock;
mod cluster;
pub mod holder;
mod log;
pub mod plan;
mod recorder;
mod resource;
mod run;
mod verdict;

pub use cluster::Engine;
pub use run::{Chaos, run};
pub use verdict::Verdict;

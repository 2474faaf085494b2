//! Guarantees to holders, one test each, against a store that fails on demand.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod acquire;
mod bundle;
mod deadline;
mod engine;
mod fake;
mod faults;
mod fixture;
mod gate;
mod handoff;
mod observer;
mod permits;
mod process;
mod release;
mod renewals;
mod roster;
mod run;
mod secrecy;
mod slots;
mod states;

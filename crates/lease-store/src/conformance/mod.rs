//! The contract of [`lease::Store`], one test per sentence, for every engine.
//!
//! A test is a function over a [`World`]: a corner of a store that no other test touches. An engine joins
//! with one line, and with a second one if it comes back after a restart:
//!
//! ```ignore
//! lease_store::conformance::suite!(memory, memory_world, start_paused = true);
//! lease_store::conformance::restarts!(embedded, embedded_world);
//! ```
//!
//! The suite runs on tokio's paused time and on real servers alike, so nothing here depends on speed: it
//! waits for conditions under a generous limit, it says "not before" by what the store itself reported, and
//! it says "not later" only where the contract does. No test assumes a first generation or a step of 1.

#![expect(missing_docs, reason = "the name of a test is its sentence")]

mod ask;
mod held;
mod names;
mod suite;
mod tail;
mod time;
mod world;

pub mod acquire;
pub mod bound;
pub mod cancel;
pub mod capability;
pub mod fence;
pub mod generation;
pub mod history;
pub mod inspect;
pub mod limit;
pub mod list;
pub mod log;
pub mod loss;
pub mod mark;
pub mod news;
pub mod race;
pub mod record;
pub mod release;
pub mod renew;
pub mod replace;
pub mod reserve;
pub mod restart;
pub mod resume;
pub mod revoke;
pub mod scan;
pub mod token;
pub mod transfer;
pub mod verify;
pub mod waiting;
pub mod watch;
pub mod wipe;

pub use crate::{conformance_restarts as restarts, conformance_suite as suite};
pub use held::{Held, Parked};
pub use tail::Tail;
pub use time::Span;
pub use world::World;

/// The answer of a store, which no test expects to fail.
#[track_caller]
pub(crate) fn said<T>(answer: lease::Result<T>) -> T {
    match answer {
        Ok(answer) => answer,
        Err(error) => panic!("the store gave no answer: {error}"),
    }
}

/// The refusal of a store, which must not have done anything.
#[track_caller]
pub(crate) fn refused<T: std::fmt::Debug>(answer: lease::Result<T>) -> lease::Error {
    match answer {
        Ok(answer) => panic!("expected a refusal, got {answer:?}"),
        Err(error) => {
            assert_eq!(error.happened(), lease::Happened::No, "a refusal did not happen: {error}");
            error
        }
    }
}

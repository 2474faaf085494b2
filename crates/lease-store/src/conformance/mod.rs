//! The contract of [`tenure_lease::Store`], one test per sentence, for every engine.
//!
//! A test is a function over a [`Harness`]: a part of a store that no other test uses. An engine joins with one line, and
//! with a second one if it survives a restart,
//! and a third one if a restart may make it forget holders:
//!
//! ```ignore
//! tenure_store::conformance::suite!(memory, memory_harness, start_paused = true);
//! tenure_store::conformance::restarts!(embedded, embedded_harness);
//! tenure_store::conformance::quarantines!(redis, quarantined_redis);
//! ```
//!
//! The suite runs on tokio's paused time and on real servers alike, so nothing here depends on speed: it
//! waits for conditions under a generous limit, it says "not before" by what the store itself reported, and
//! it says "not later" only where the contract does. No test assumes a first generation or a step of 1.

#![expect(missing_docs, reason = "the name of a test is its sentence")]

mod harness;
mod leases;
mod sentences;
mod stall;
mod suite;
mod time;
mod verbs;
mod watcher;

pub mod acquire;
pub mod announcement;
pub mod bound;
pub mod cancellation;
pub mod capability;
pub mod durability;
pub mod end_reason;
pub mod fence;
pub mod generation;
pub mod high_water_mark;
pub mod history;
pub mod inspect;
pub mod limit;
pub mod list;
pub mod log;
pub mod lost_reply;
pub mod quarantine;
pub mod race;
pub mod record;
pub mod release;
pub mod renew;
pub mod replacement;
pub mod reservation;
pub mod restart;
pub mod restarted_record;
pub mod revocation;
pub mod scan;
pub mod token;
pub mod transfer;
pub mod verify;
pub mod waiting;
pub mod watch;
pub mod watch_resume;
pub mod wipe;

pub use crate::{
    conformance_crashes as crashes, conformance_lost_replies as lost_replies,
    conformance_quarantines as quarantines, conformance_restarts as restarts, conformance_suite as suite,
};
pub use harness::Harness;
pub use leases::{HeldLease, ParkedClaim};
pub use stall::stall_runtime;
pub use time::Span;
pub use watcher::Watcher;

/// The answer of a store, which no test expects to fail.
#[track_caller]
pub(crate) fn expect_ok<T>(answer: tenure_lease::Result<T>) -> T {
    match answer {
        Ok(answer) => answer,
        Err(error) => panic!("the store failed: {error}"),
    }
}

/// The results of renewals, none of which any test expects to fail.
#[track_caller]
pub(crate) fn expect_renewals(
    answer: tenure_lease::Result<Vec<tenure_lease::Result<tenure_lease::Renewed>>>,
) -> Vec<tenure_lease::Renewed> {
    expect_ok(answer.and_then(|results| results.into_iter().collect()))
}

/// The refusal of a store, which must not have done anything.
#[track_caller]
pub(crate) fn expect_refusal<T: std::fmt::Debug>(answer: tenure_lease::Result<T>) -> tenure_lease::Error {
    match answer {
        Ok(answer) => panic!("expected a refusal, got {answer:?}"),
        Err(error) => {
            assert_eq!(
                error.outcome(),
                tenure_lease::Outcome::NotApplied,
                "a refusal has no effect: {error}"
            );
            error
        }
    }
}

//! Engines against real disks, real processes and real servers.
#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

mod clock;
mod conformance;
mod embedded;
mod embedded_base;
mod embedded_damage;
mod embedded_room;
mod embedded_salvage;
mod embedded_tokens;
mod failed_store;
mod failing_base;
mod forgetful_storage;
mod redis_acl;
mod redis_bounds;
mod redis_discovery;
mod redis_fault;
mod redis_fixture;
mod redis_layout;
mod redis_profile;
mod redis_quarantine;
mod redis_queue;
mod redis_renew;
mod redis_successor;
mod redis_wake_ups;
mod stalled_disk;
mod successor;
mod writer;

/// The results of renewals, none of which may fail.
#[track_caller]
fn renewals(
    answer: tenure_lease::Result<Vec<tenure_lease::Result<tenure_lease::Renewed>>>,
) -> Vec<tenure_lease::Renewed> {
    answer.unwrap().into_iter().map(Result::unwrap).collect()
}

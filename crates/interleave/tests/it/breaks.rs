//! The tests can fail: each known fault, put in on purpose, is found within a stated number of schedules.

use std::sync::atomic::Ordering;

use interleave::{Break, broken};

use crate::waiters::cancelled;
use crate::world::{Platter, World, found};
use crate::writer::durable_when_answered;

/// Schedules within which a fault must show itself.
const WITHIN: usize = 2_000;

fn shows(name: &str, test: impl Fn() + Send + Sync + 'static) {
    let after = found(WITHIN, test);
    broken(None);
    let after = after.unwrap_or_else(|| panic!("{name} was not found within {WITHIN} schedules"));
    println!("{name}: found by schedule {after}");
}

#[test]
fn a_signal_lost_between_unlock_and_sleep_is_found() {
    shows("torn wait", || {
        broken(Some(Break::TornWait));
        durable_when_answered(Platter::default());
    });
}

#[test]
fn a_grant_that_lands_where_nobody_looks_is_found() {
    shows("deaf close", || {
        broken(Some(Break::DeafClose));
        cancelled(World::memory());
    });
}

#[test]
fn a_grant_that_nobody_hears_is_found() {
    shows("lost receiver", || {
        broken(Some(Break::LostReceiver));
        cancelled(World::memory());
    });
}

#[test]
fn an_answer_before_the_sync_is_found() {
    shows("lying disk", || {
        let disk = Platter::default();
        disk.lies.store(true, Ordering::Relaxed);
        durable_when_answered(disk);
    });
}

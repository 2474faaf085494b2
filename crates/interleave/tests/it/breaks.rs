//! The tests can fail: each injected fault is found within a stated number of schedules.

use std::sync::atomic::Ordering;

use tenure_interleave::{Break, inject};

use crate::fixture::{Fixture, MemoryStorage, found};
use crate::waiters::cancelled;
use crate::writer::durable_when_answered;

/// Schedules within which a fault must be found.
const WITHIN: usize = 2_000;

fn shows(name: &str, test: impl Fn() + Send + Sync + 'static) {
    let after = found(WITHIN, test);
    inject(None);
    let after = after.unwrap_or_else(|| panic!("{name} was not found within {WITHIN} schedules"));
    println!("{name}: found by schedule {after}");
}

#[test]
fn a_signal_lost_between_unlock_and_sleep_is_found() {
    shows("torn wait", || {
        inject(Some(Break::TornWait));
        durable_when_answered(MemoryStorage::default());
    });
}

#[test]
fn a_grant_sent_to_a_closed_receiver_is_found() {
    shows("deaf close", || {
        inject(Some(Break::DeafClose));
        cancelled(Fixture::memory());
    });
}

#[test]
fn an_undelivered_grant_is_found() {
    shows("lost receiver", || {
        inject(Some(Break::LostReceiver));
        cancelled(Fixture::memory());
    });
}

#[test]
fn an_answer_before_the_sync_is_found() {
    shows("lying disk", || {
        let disk = MemoryStorage::default();
        disk.lies.store(true, Ordering::Relaxed);
        durable_when_answered(disk);
    });
}

//! The queue of a key: every waiter is granted once, and a dropped one leaves nothing behind.

use std::sync::Arc;
use std::time::Duration;

use shuttle::future::block_on;
use shuttle::thread;
use tenure_lease::{Acquired, Leases, Verified};

use crate::fixture::{Fixture, TRIES, acquire, claim, explore, key, patient, release};

/// Both engines in process; each gets its share of the tries.
pub(crate) fn on_both(test: impl Fn(Fixture) + Send + Sync + Copy + 'static) {
    explore(TRIES, move || test(Fixture::memory()));
    explore(TRIES / 2, move || test(Fixture::embedded()));
}

#[test]
fn every_waiter_is_served_once_whatever_the_order() {
    on_both(|fixture| {
        let first = claim("k");
        let mut generations = vec![acquire(&fixture.store, first.clone()).lease.generation];
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let store = fixture.store.clone();
                thread::spawn(move || {
                    let mine = patient("k");
                    let generation = acquire(&store, mine.clone()).lease.generation;
                    release(&store, &mine);
                    generation
                })
            })
            .collect();
        release(&fixture.store, &first);
        generations.extend(waiters.into_iter().map(|waiter| waiter.join().unwrap()));
        generations.sort_unstable();
        generations.dedup();
        assert_eq!(generations.len(), 4, "two reigns had one generation");
    });
}

#[test]
fn a_waiter_cancelled_at_any_point_leaves_the_key_to_the_next() {
    on_both(cancelled);
}

pub(crate) fn cancelled(fixture: Fixture) {
    let first = claim("k");
    acquire(&fixture.store, first.clone());
    let store = fixture.store.clone();
    let doomed = shuttle::future::spawn(async move { store.acquire(patient("k")).await });
    let store = fixture.store.clone();
    let releaser = thread::spawn(move || release(&store, &first));
    let canceller = thread::spawn(move || {
        doomed.abort();
        block_on(doomed)
    });
    releaser.join().unwrap();
    // Received before the abort: then the caller has it.
    if let Ok(Ok(Acquired::Granted(grant))) = canceller.join().unwrap() {
        assert_eq!(grant.lease.key, key("k"));
        return;
    }
    // Time stands still: only a released key can be granted.
    acquire(&fixture.store, patient("k"));
}

#[test]
fn a_grant_cancelled_before_it_is_received_is_released() {
    explore(TRIES, || {
        let fixture = Fixture::embedded();
        let store = fixture.store.clone();
        let doomed = shuttle::future::spawn(async move { store.acquire(claim("k")).await });
        thread::spawn(move || {
            doomed.abort();
            block_on(doomed)
        })
        .join()
        .unwrap()
        .map_or_else(
            |_| drop(acquire(&fixture.store, patient("k"))),
            |heard| assert!(matches!(heard, Ok(Acquired::Granted(_)))),
        );
    });
}

#[test]
fn a_wait_that_times_out_as_the_grant_arrives_reports_the_truth() {
    on_both(|fixture| {
        let first = claim("k");
        acquire(&fixture.store, first.clone());
        let second = claim("k").waiting(Duration::from_secs(1));
        let (store, mine) = (fixture.store.clone(), second.clone());
        let waiter = thread::spawn(move || block_on(store.acquire(mine)).unwrap());
        let clock = fixture.clock.clone();
        let time = thread::spawn(move || clock.advance(Duration::from_secs(2)));
        release(&fixture.store, &first);
        time.join().unwrap();
        let answer = waiter.join().unwrap();
        let verified = block_on(fixture.store.verify(&key("k"), &second.token)).unwrap();
        match answer {
            Acquired::Granted(_) => assert!(matches!(verified, Verified::Live { .. }), "{verified:?}"),
            Acquired::Busy(_) => assert!(matches!(verified, Verified::Wrong), "{verified:?}"),
        }
    });
}

#[test]
fn duplicates_of_one_claim_get_one_reign() {
    on_both(|fixture| {
        let first = claim("k");
        acquire(&fixture.store, first.clone());
        let duplicate = patient("k");
        let duplicate: Vec<_> = (0..2)
            .map(|_| {
                let (store, duplicate) = (fixture.store.clone(), duplicate.clone());
                thread::spawn(move || acquire(&store, duplicate).lease.generation)
            })
            .collect();
        release(&fixture.store, &first);
        let heard: Vec<_> = duplicate.into_iter().map(|duplicate| duplicate.join().unwrap()).collect();
        assert_eq!(heard[0], heard[1]);
    });
}

#[test]
fn an_expiry_without_any_call_grants_to_the_waiter() {
    on_both(|fixture| {
        acquire(&fixture.store, claim("k"));
        let store = fixture.store.clone();
        let waiter = thread::spawn(move || acquire(&store, patient("k")));
        let clock: Arc<_> = fixture.clock.clone();
        // In two parts, so that the timer may fall asleep between them.
        clock.advance(Duration::from_secs(29));
        clock.advance(Duration::from_secs(2));
        // Parked after the clock's last move, it waits for a timer that was set before; parked before it, the same.
        waiter.join().unwrap();
    });
}

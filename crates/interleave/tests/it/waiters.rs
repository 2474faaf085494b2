//! The queue of a key: nobody is forgotten, nobody is served twice, and whoever leaves leaves nothing behind.

use std::sync::Arc;
use std::time::Duration;

use lease::{Acquired, Leases, Verified};
use shuttle::future::block_on;
use shuttle::thread;

use crate::world::{TRIES, World, acquire, claim, explore, key, patient, release};

/// Both engines in process; each gets its share of the tries.
pub(crate) fn on_both(test: impl Fn(World) + Send + Sync + Copy + 'static) {
    explore(TRIES, move || test(World::memory()));
    explore(TRIES / 2, move || test(World::embedded()));
}

#[test]
fn every_waiter_is_served_once_whatever_the_order() {
    on_both(|world| {
        let first = claim("k");
        let mut generations = vec![acquire(&world.store, first.clone()).lease.generation];
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let store = world.store.clone();
                thread::spawn(move || {
                    let mine = patient("k");
                    let generation = acquire(&store, mine.clone()).lease.generation;
                    release(&store, &mine);
                    generation
                })
            })
            .collect();
        release(&world.store, &first);
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

pub(crate) fn cancelled(world: World) {
    let first = claim("k");
    acquire(&world.store, first.clone());
    let store = world.store.clone();
    let doomed = shuttle::future::spawn(async move { store.acquire(patient("k")).await });
    let store = world.store.clone();
    let releaser = thread::spawn(move || release(&store, &first));
    let canceller = thread::spawn(move || {
        doomed.abort();
        block_on(doomed)
    });
    releaser.join().unwrap();
    // Heard before the end: then the caller has it, and gives it back.
    if let Ok(Ok(Acquired::Granted(grant))) = canceller.join().unwrap() {
        assert_eq!(grant.lease.key, key("k"));
        return;
    }
    // Time stands still: only a key that was given back can be had.
    acquire(&world.store, patient("k"));
}

#[test]
fn a_grant_cancelled_before_it_is_heard_is_given_back() {
    explore(TRIES, || {
        let world = World::embedded();
        let store = world.store.clone();
        let doomed = shuttle::future::spawn(async move { store.acquire(claim("k")).await });
        thread::spawn(move || {
            doomed.abort();
            block_on(doomed)
        })
        .join()
        .unwrap()
        .map_or_else(
            |_| drop(acquire(&world.store, patient("k"))),
            |heard| assert!(matches!(heard, Ok(Acquired::Granted(_)))),
        );
    });
}

#[test]
fn a_wait_that_ends_as_the_grant_comes_says_what_is_true() {
    on_both(|world| {
        let first = claim("k");
        acquire(&world.store, first.clone());
        let second = claim("k").waiting(Duration::from_secs(1));
        let (store, mine) = (world.store.clone(), second.clone());
        let waiter = thread::spawn(move || block_on(store.acquire(mine)).unwrap());
        let clock = world.clock.clone();
        let time = thread::spawn(move || clock.advance(Duration::from_secs(2)));
        release(&world.store, &first);
        time.join().unwrap();
        let answer = waiter.join().unwrap();
        let verified = block_on(world.store.verify(&key("k"), &second.token)).unwrap();
        match answer {
            Acquired::Granted(_) => assert!(matches!(verified, Verified::Live { .. }), "{verified:?}"),
            Acquired::Busy(_) => assert!(matches!(verified, Verified::Wrong), "{verified:?}"),
        }
    });
}

#[test]
fn duplicates_of_one_claim_learn_of_one_reign() {
    on_both(|world| {
        let first = claim("k");
        acquire(&world.store, first.clone());
        let twin = patient("k");
        let twins: Vec<_> = (0..2)
            .map(|_| {
                let (store, twin) = (world.store.clone(), twin.clone());
                thread::spawn(move || acquire(&store, twin).lease.generation)
            })
            .collect();
        release(&world.store, &first);
        let heard: Vec<_> = twins.into_iter().map(|twin| twin.join().unwrap()).collect();
        assert_eq!(heard[0], heard[1]);
    });
}

#[test]
fn an_expiry_that_nobody_looks_for_still_serves_the_waiter() {
    on_both(|world| {
        acquire(&world.store, claim("k"));
        let store = world.store.clone();
        let waiter = thread::spawn(move || acquire(&store, patient("k")));
        let clock: Arc<_> = world.clock.clone();
        // In two parts, so that the timer may fall asleep between them.
        clock.advance(Duration::from_secs(29));
        clock.advance(Duration::from_secs(2));
        // Parked after the clock's last move, it waits for a timer that was set before; parked before it, the same.
        waiter.join().unwrap();
    });
}

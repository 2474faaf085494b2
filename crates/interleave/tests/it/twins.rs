//! Several claims with one token under way: whoever goes away takes nothing from one that was told, or still waits.

use std::pin::Pin;
use std::sync::Arc;

use interleave::Local;
use lease::{Acquired, Claim, Leases, Result, Verified};
use shuttle::future::block_on;
use shuttle::thread;

use crate::waiters::on_both;
use crate::world::{TRIES, World, acquire, begin, claim, explore, granted, patient, release};

type Asked = Pin<Box<dyn Future<Output = Result<Acquired>> + Send>>;

fn ask(store: &Arc<Local>, claim: &Claim) -> Asked {
    let (store, claim) = (store.clone(), claim.clone());
    Box::pin(async move { store.acquire(claim).await })
}

/// A claim that was decided and waits for the disk.
fn on_its_way(store: &Arc<Local>, claim: &Claim) -> Asked {
    let mut asked = ask(store, claim);
    assert!(begin(&mut asked).is_none(), "answered without the disk");
    asked
}

fn verified(world: &World, claim: &Claim) -> Verified {
    block_on(world.store.verify(&claim.key, &claim.token)).unwrap()
}

fn assert_held(world: &World, claim: &Claim) {
    let verified = verified(world, claim);
    assert!(matches!(verified, Verified::Live { .. }), "told that it holds, and: {verified:?}");
}

#[test]
fn a_claim_dropped_on_its_way_leaves_what_its_twin_waits_for() {
    explore(TRIES, || {
        for first_goes in [true, false] {
            let world = World::embedded();
            let mine = claim("k");
            world.disk.gate.close();
            let first = on_its_way(&world.store, &mine);
            let second = on_its_way(&world.store, &mine);
            let (gone, stays) = if first_goes { (first, second) } else { (second, first) };
            drop(gone);
            world.disk.gate.open();
            granted(block_on(stays));
            assert_held(&world, &mine);
        }
    });
}

#[test]
fn a_claim_dropped_on_its_way_leaves_what_its_twin_was_told() {
    explore(TRIES, || {
        let world = World::embedded();
        let mine = claim("k");
        acquire(&world.store, mine.clone());
        world.disk.gate.close();
        let other = on_its_way(&world.store, &claim("other"));
        drop(on_its_way(&world.store, &mine));
        world.disk.gate.open();
        granted(block_on(other));
        assert_held(&world, &mine);
    });
}

#[test]
fn when_all_twins_are_dropped_on_their_way_the_key_is_given_back() {
    explore(TRIES, || {
        let world = World::embedded();
        let mine = claim("k");
        world.disk.gate.close();
        let asked = [(); 3].map(|()| on_its_way(&world.store, &mine));
        drop(asked);
        world.disk.gate.open();
        acquire(&world.store, claim("k"));
    });
}

#[test]
fn a_twin_of_a_waiter_that_was_told_keeps_the_key_when_the_waiter_goes() {
    on_both(|world| {
        let first = claim("k");
        acquire(&world.store, first.clone());
        let mine = patient("k");
        let mut parked = ask(&world.store, &mine);
        assert!(begin(&mut parked).is_none());
        release(&world.store, &first);
        // Granted, and nobody has taken the news yet.
        let twin = acquire(&world.store, mine.clone());
        drop(parked);
        let Verified::Live { generation, .. } = verified(&world, &mine) else {
            panic!("told that it holds, and the one that went took it along")
        };
        assert_eq!(generation, twin.lease.generation);
    });
}

#[test]
fn of_two_claims_with_one_token_the_one_that_is_answered_holds_however_the_other_ends() {
    on_both(|world| {
        let mine = patient("k");
        let (store, twin) = (world.store.clone(), mine.clone());
        let doomed = shuttle::future::spawn(async move { store.acquire(twin).await });
        let canceller = thread::spawn(move || {
            doomed.abort();
            drop(block_on(doomed));
        });
        acquire(&world.store, mine.clone());
        canceller.join().unwrap();
        assert_held(&world, &mine);
    });
}

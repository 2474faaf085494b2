//! Concurrent claims with one token: a dropped one takes nothing from one that received the grant or still waits.

use std::pin::Pin;
use std::sync::Arc;

use shuttle::future::block_on;
use shuttle::thread;
use tenure_interleave::Local;
use tenure_lease::{Acquired, Claim, Leases, Result, Verified};

use crate::fixture::{Fixture, TRIES, acquire, begin, claim, explore, granted, patient, release};
use crate::waiters::on_both;

type ClaimCall = Pin<Box<dyn Future<Output = Result<Acquired>> + Send>>;

fn ask(store: &Arc<Local>, claim: &Claim) -> ClaimCall {
    let (store, claim) = (store.clone(), claim.clone());
    Box::pin(async move { store.acquire(claim).await })
}

/// A claim that is decided and waits for the disk.
fn in_flight(store: &Arc<Local>, claim: &Claim) -> ClaimCall {
    let mut asked = ask(store, claim);
    assert!(begin(&mut asked).is_none(), "answered without the disk");
    asked
}

fn verified(fixture: &Fixture, claim: &Claim) -> Verified {
    block_on(fixture.store.verify(&claim.key, &claim.token)).unwrap()
}

fn assert_held(fixture: &Fixture, claim: &Claim) {
    let verified = verified(fixture, claim);
    assert!(matches!(verified, Verified::Live { .. }), "granted, and: {verified:?}");
}

#[test]
fn a_claim_dropped_in_flight_keeps_what_its_duplicate_waits_for() {
    explore(TRIES, || {
        for first_goes in [true, false] {
            let fixture = Fixture::embedded();
            let mine = claim("k");
            fixture.disk.gate.close();
            let first = in_flight(&fixture.store, &mine);
            let second = in_flight(&fixture.store, &mine);
            let (gone, stays) = if first_goes { (first, second) } else { (second, first) };
            drop(gone);
            fixture.disk.gate.open();
            granted(block_on(stays));
            assert_held(&fixture, &mine);
        }
    });
}

#[test]
fn a_claim_dropped_in_flight_keeps_what_its_duplicate_received() {
    explore(TRIES, || {
        let fixture = Fixture::embedded();
        let mine = claim("k");
        acquire(&fixture.store, mine.clone());
        fixture.disk.gate.close();
        let other = in_flight(&fixture.store, &claim("other"));
        drop(in_flight(&fixture.store, &mine));
        fixture.disk.gate.open();
        granted(block_on(other));
        assert_held(&fixture, &mine);
    });
}

#[test]
fn when_all_duplicates_are_dropped_in_flight_the_key_is_released() {
    explore(TRIES, || {
        let fixture = Fixture::embedded();
        let mine = claim("k");
        fixture.disk.gate.close();
        let asked = [(); 3].map(|()| in_flight(&fixture.store, &mine));
        drop(asked);
        fixture.disk.gate.open();
        acquire(&fixture.store, claim("k"));
    });
}

#[test]
fn a_duplicate_that_received_the_grant_keeps_the_key_when_the_waiter_is_dropped() {
    on_both(|fixture| {
        let first = claim("k");
        acquire(&fixture.store, first.clone());
        let mine = patient("k");
        let mut parked = ask(&fixture.store, &mine);
        assert!(begin(&mut parked).is_none());
        release(&fixture.store, &first);
        // Granted, and the grant was not received yet.
        let duplicate = acquire(&fixture.store, mine.clone());
        drop(parked);
        let Verified::Live { generation, .. } = verified(&fixture, &mine) else {
            panic!("granted, and the dropped duplicate released it")
        };
        assert_eq!(generation, duplicate.lease.generation);
    });
}

#[test]
fn of_two_claims_with_one_token_the_answered_one_holds_however_the_other_ends() {
    on_both(|fixture| {
        let mine = patient("k");
        let (store, duplicate) = (fixture.store.clone(), mine.clone());
        let doomed = shuttle::future::spawn(async move { store.acquire(duplicate).await });
        let canceller = thread::spawn(move || {
            doomed.abort();
            drop(block_on(doomed));
        });
        acquire(&fixture.store, mine.clone());
        canceller.join().unwrap();
        assert_held(&fixture, &mine);
    });
}

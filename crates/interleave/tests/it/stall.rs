//! A caller that stalls at any point: what was reported over stays over.

use std::time::Duration;

use shuttle::future::block_on;
use shuttle::thread;
use tenure_lease::{Committed, Fence, Leases, Mode, Op, Phase, Records, Renewal, Renewed, Ttl};

use crate::fixture::{Fixture, acquire, claim, key};
use crate::waiters::on_both;

/// Lets a reign of 30 s expire and returns whether the key is reported free.
fn is_free_after_its_ttl(fixture: &Fixture) -> bool {
    fixture.clock.advance(Duration::from_secs(31));
    block_on(fixture.store.inspect(&key("k"))).unwrap().phase == Phase::Free
}

#[test]
fn a_stalled_renewal_does_not_revive_a_reign_that_was_reported_over() {
    on_both(|fixture| {
        let mine = claim("k");
        let generation = acquire(&fixture.store, mine.clone()).lease.generation;
        let store = fixture.store.clone();
        let renewer = thread::spawn(move || {
            let ttl = Some(Ttl::from_secs(60).unwrap());
            let item = Renewal { key: mine.key, token: mine.token, generation, ttl };
            block_on(store.renew(&[item]))
        });
        let free = is_free_after_its_ttl(&fixture);
        let answer = renewer.join().unwrap();
        // An outdated heartbeat also refuses renewals.
        let renewed = matches!(answer.as_deref(), Ok([Ok(Renewed::Renewed { .. })]));
        assert_eq!(free, !renewed, "{answer:?}");
    });
}

#[test]
fn a_stalled_strict_write_does_not_land_after_its_reign_was_reported_over() {
    on_both(|fixture| {
        let mine = claim("k");
        let generation = acquire(&fixture.store, mine.clone()).lease.generation;
        let store = fixture.store.clone();
        let writer = thread::spawn(move || {
            let fence = Fence { key: mine.key, token: mine.token, generation, mode: Mode::Strict };
            let put = Op::Put { key: key("r"), value: b"late".as_slice().into(), ttl: None };
            block_on(store.write_fenced(&fence, &[put])).unwrap()
        });
        let free = is_free_after_its_ttl(&fixture);
        let there = block_on(fixture.store.get(&key("r"))).unwrap().is_some();
        let committed = writer.join().unwrap();
        assert!(free);
        assert_eq!(there, matches!(committed, Committed::Written { .. }), "{committed:?}");
    });
}

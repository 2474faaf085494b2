//! A caller that is stopped for a while at any point: what others were told is over stays over.

use std::time::Duration;

use lease::{Committed, Fence, Leases, Mode, Op, Phase, Records, Renewal, Renewed, Ttl};
use shuttle::future::block_on;
use shuttle::thread;

use crate::waiters::on_both;
use crate::world::{World, acquire, claim, key};

/// Lets a reign of 30 s run out and says whether the key is free, as anybody would be told.
fn is_free_after_its_ttl(world: &World) -> bool {
    world.clock.advance(Duration::from_secs(31));
    block_on(world.store.inspect(&key("k"))).unwrap().phase == Phase::Free
}

#[test]
fn a_renewal_that_was_stopped_brings_nothing_back_that_was_told_to_be_over() {
    on_both(|world| {
        let mine = claim("k");
        let generation = acquire(&world.store, mine.clone()).lease.generation;
        let store = world.store.clone();
        let renewer = thread::spawn(move || {
            let ttl = Some(Ttl::from_secs(60).unwrap());
            let item = Renewal { key: mine.key, token: mine.token, generation, ttl };
            block_on(store.renew(&[item]))
        });
        let free = is_free_after_its_ttl(&world);
        let answer = renewer.join().unwrap();
        // A disk without a sign of life for that long lets nothing be renewed either.
        let renewed = matches!(answer.as_deref(), Ok([Renewed::Renewed { .. }]));
        assert_eq!(free, !renewed, "{answer:?}");
    });
}

#[test]
fn a_strict_write_that_was_stopped_does_not_land_after_its_reign_was_told_to_be_over() {
    on_both(|world| {
        let mine = claim("k");
        let generation = acquire(&world.store, mine.clone()).lease.generation;
        let store = world.store.clone();
        let writer = thread::spawn(move || {
            let fence = Fence { key: mine.key, token: mine.token, generation, mode: Mode::Strict };
            let put = Op::Put { key: key("r"), value: b"late".as_slice().into(), ttl: None };
            block_on(store.write_fenced(&fence, &[put])).unwrap()
        });
        let free = is_free_after_its_ttl(&world);
        let there = block_on(world.store.get(&key("r"))).unwrap().is_some();
        let committed = writer.join().unwrap();
        assert!(free);
        assert_eq!(there, matches!(committed, Committed::Written { .. }), "{committed:?}");
    });
}

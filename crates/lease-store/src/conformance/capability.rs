//! What an engine states about itself holds.

use std::time::Duration;

use tenure_lease::Ttl;

use super::{Harness, expect_ok};

pub async fn the_stated_bounds_make_sense(harness: &Harness) {
    let stated = harness.capabilities();
    assert!(!stated.engine.is_empty());
    assert!(stated.min_ttl < stated.max_ttl && stated.max_ttl <= Ttl::MAX, "{stated:?}");
    assert_eq!(harness.second().capabilities(), stated);
}

pub async fn the_stated_capabilities_are_those_of_the_contract(harness: &Harness) {
    assert_eq!(harness.capabilities(), harness.contract());
}

pub async fn the_shortest_and_the_longest_ttl_are_granted(harness: &Harness) {
    for ttl in [harness.capabilities().min_ttl, harness.capabilities().max_ttl] {
        let mut claim = harness.claim(&harness.key(&format!("{}", ttl.as_millis())), "ann");
        claim.ttl = ttl;
        let held = harness.grant(claim).await;
        assert_eq!(held.lease.ttl, ttl);
        expect_ok(harness.store().release(held.release(None)).await);
    }
}

pub async fn the_clock_advances_and_sleeps_no_less_than_requested(harness: &Harness) {
    let clock = harness.store().clock();
    let (before, wall) = (clock.now(), clock.wall());
    clock.sleep_until(before + Duration::from_millis(30)).await;
    assert!(clock.now().since(before) >= Duration::from_millis(30));
    assert!(clock.wall() >= wall);
}

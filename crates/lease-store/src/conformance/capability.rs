//! What an engine states about itself holds.

use std::time::Duration;

use lease::{Loss, Ttl};

use super::{World, said};

pub async fn the_stated_bounds_make_sense(world: &World) {
    let stated = world.capabilities();
    assert!(!stated.engine.is_empty());
    assert!(stated.min_ttl < stated.max_ttl && stated.max_ttl <= Ttl::MAX, "{stated:?}");
    assert_eq!(world.second().capabilities(), stated);
}

pub async fn the_floors_are_those_of_the_contract(world: &World) {
    let stated = world.capabilities();
    let (min_ttl, lag, loss) = match stated.engine {
        "memory" => (250, 50, Loss::Process),
        "embedded" => (250, 50, Loss::Nothing),
        "redis" => (500, 2_000, Loss::ServerPersistence),
        _ => return, // The contract names no floors for it.
    };
    assert_eq!(stated.min_ttl.as_millis(), min_ttl);
    assert!(stated.expiry_lag <= Duration::from_millis(lag), "{stated:?}");
    assert_eq!(stated.loss, loss);
    if stated.engine != "redis" {
        assert_eq!((stated.max_ttl, stated.failover), (Ttl::MAX, Duration::ZERO));
    }
}

pub async fn the_shortest_and_the_longest_ttl_are_granted(world: &World) {
    for ttl in [world.capabilities().min_ttl, world.capabilities().max_ttl] {
        let mut claim = world.claim(&world.key(&format!("{}", ttl.as_millis())), "ann");
        claim.ttl = ttl;
        let held = world.grant(claim).await;
        assert_eq!(held.lease.ttl, ttl);
        said(world.store().release(held.giving(None)).await);
    }
}

pub async fn the_clock_goes_forward_and_sleeps_no_less_than_asked(world: &World) {
    let clock = world.store().clock();
    let (before, wall) = (clock.now(), clock.wall());
    clock.sleep_until(before + Duration::from_millis(30)).await;
    assert!(clock.now().since(before) >= Duration::from_millis(30));
    assert!(clock.wall() >= wall);
}

//! Giving a key back.

use lease::{Phase, Release, Released};

use super::{World, said};

pub async fn a_release_frees_at_once(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.give_back(&held).await;
    assert_eq!(world.inspect(held.key()).await.phase, Phase::Free);
    let next = world.hold(held.key(), "bob").await;
    assert!(next.generation() > held.generation());
}

pub async fn the_token_alone_is_enough(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let release = Release::new(held.key().clone(), held.token.clone());
    assert_eq!(said(world.store().release(release).await), Released::Released);
    assert_eq!(world.inspect(held.key()).await.phase, Phase::Free);
}

pub async fn another_handle_may_release(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    assert_eq!(said(world.second().release(held.giving(None)).await), Released::Released);
    assert_eq!(world.inspect(held.key()).await.phase, Phase::Free);
}

pub async fn a_second_release_holds_nothing(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.give_back(&held).await;
    assert_eq!(said(world.store().release(held.giving(None)).await), Released::NotHeld);
}

pub async fn a_second_release_does_not_touch_the_next_reign(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.give_back(&held).await;
    let next = world.hold(held.key(), "bob").await;
    let release = Release::new(held.key().clone(), held.token.clone());
    assert_eq!(said(world.store().release(release).await), Released::NotHeld);
    world.assert_live(&next).await;
}

pub async fn a_wrong_token_releases_nothing(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let wrong = Release { token: world.token(), ..held.giving(None) };
    assert_eq!(said(world.store().release(wrong).await), Released::NotHeld);
    world.assert_live(&held).await;
}

pub async fn a_wrong_generation_releases_nothing(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let wrong = Release { generation: Some(held.other_generation()), ..held.giving(None) };
    assert_eq!(said(world.store().release(wrong).await), Released::NotHeld);
    world.assert_live(&held).await;
    world.give_back(&held).await;
}

pub async fn an_expired_lease_is_not_held(world: &World) {
    let held = world.hold_briefly(&world.key("k"), "ann").await;
    world.outlive(held.lease.ttl).await;
    assert_eq!(said(world.store().release(held.giving(None)).await), Released::NotHeld);
}

pub async fn a_release_to_an_heir_by_a_wrong_token_reserves_nothing(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let heir = Some(world.holder("bob"));
    let wrong = Release { token: world.token(), ..held.giving(heir.clone()) };
    assert_eq!(said(world.store().release(wrong).await), Released::NotHeld);
    world.assert_live(&held).await;
    world.give_back(&held).await;
    assert_eq!(said(world.store().release(held.giving(heir)).await), Released::NotHeld);
    assert_eq!(world.inspect(held.key()).await.phase, Phase::Free);
}

pub async fn a_release_wakes_the_waiters_in_the_order_they_came(world: &World) {
    let key = world.key("k");
    let mut reign = world.hold(&key, "ann").await;
    let bob = world.queue(&key, "bob").await;
    let cat = world.park_at(world.second(), world.claim(&key, "cat")).await;
    let mut dan = world.queue(&key, "dan").await;
    for (mut next, left) in [(bob, 2), (cat, 1)] {
        assert!(next.is_parked() && dan.is_parked());
        world.give_back(&reign).await;
        let granted = next.granted(world).await;
        assert!(granted.generation() > reign.generation());
        world.until_parked(&key, left).await;
        world.assert_live(&granted).await;
        reign = granted;
    }
    assert!(dan.is_parked());
    world.give_back(&reign).await;
    let last = dan.granted(world).await;
    assert!(last.generation() > reign.generation());
    assert_eq!(world.inspect(&key).await.waiters, 0);
}

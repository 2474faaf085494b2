//! What anyone may know of a key.

use lease::{Meta, Phase};

use super::{World, said};

pub async fn a_key_that_was_never_held_is_free(world: &World) {
    let key = world.key("k");
    let status = world.inspect(&key).await;
    assert_eq!((&status.key, status.phase), (&key, Phase::Free));
    assert_eq!((status.holder, status.generation, status.remaining), (None, None, None));
    assert_eq!((status.since, status.waiters), (None, 0));
}

pub async fn a_held_key_shows_its_holder(world: &World) {
    let meta = said(Meta::new("room 7"));
    let held = world.grant(world.claim(&world.key("k"), "ann").meta(meta.clone())).await;
    let status = world.inspect(held.key()).await;
    assert_eq!((&status.key, status.phase), (held.key(), Phase::Held));
    assert_eq!(status.holder, Some(world.holder("ann")));
    assert_eq!(status.generation, Some(held.generation()));
    assert_eq!(status.meta, meta);
    assert!(status.since.is_some());
}

pub async fn a_renewal_keeps_since_and_meta(world: &World) {
    let meta = said(Meta::new("room 7"));
    let held = world.grant(world.claim(&world.key("k"), "ann").meta(meta)).await;
    let before = world.inspect(held.key()).await;
    world.pass(std::time::Duration::from_millis(50)).await;
    world.renew(&held).await;
    let after = world.inspect(held.key()).await;
    assert_eq!((after.since, after.meta), (before.since, before.meta));
}

pub async fn a_released_key_shows_nobody(world: &World) {
    let meta = said(Meta::new("room 7"));
    let held = world.grant(world.claim(&world.key("k"), "ann").meta(meta)).await;
    world.give_back(&held).await;
    let status = world.inspect(held.key()).await;
    assert_eq!((status.phase, status.holder, status.remaining), (Phase::Free, None, None));
    assert_eq!((status.meta, status.since), (Meta::default(), None));
}

pub async fn an_expired_key_is_free_without_any_sweep(world: &World) {
    let held = world.hold_briefly(&world.key("k"), "ann").await;
    world.outlive(held.lease.ttl).await;
    let status = world.inspect(held.key()).await;
    assert_eq!((status.phase, status.holder), (Phase::Free, None));
    assert_eq!(status.generation, Some(held.generation()));
}

pub async fn a_stalled_store_shows_no_expired_holder(world: &World) {
    let held = world.hold_briefly(&world.key("k"), "ann").await;
    world.stall(held.lease.ttl.as_duration() + super::time::ROUNDING).await;
    assert_eq!(world.inspect(held.key()).await.phase, Phase::Free);
}

pub async fn another_handle_shows_the_same(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let (one, two) = (world.inspect(held.key()).await, said(world.second().inspect(held.key()).await));
    assert_eq!((one.phase, one.holder, one.generation), (two.phase, two.holder, two.generation));
    assert_eq!((one.meta, one.since, one.waiters), (two.meta, two.since, two.waiters));
}

pub async fn looking_does_not_refresh(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.pass(std::time::Duration::from_millis(200)).await;
    world.inspect(held.key()).await;
    world.ends(held.key()).await.assert_before(held.told, held.lease.ttl.as_duration());
}

pub async fn a_record_is_no_lease_and_not_shown_as_one(world: &World) {
    let key = world.key("k");
    let held = world.hold(&key, "ann").await;
    world.give_back(&held).await;
    world.put(&key, "a secret").await;
    let status = world.inspect(&key).await;
    assert_eq!((status.phase, status.holder), (Phase::Free, None));
    let listed = said(world.store().list(&lease::Query::new(world.prefix())).await);
    assert!(listed.items.is_empty(), "{listed:?}");
}

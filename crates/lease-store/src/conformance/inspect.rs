//! What anyone may know of a key.

use tenure_lease::{Meta, Phase};

use super::{Harness, expect_ok};

pub async fn a_key_that_was_never_held_is_free(harness: &Harness) {
    let key = harness.key("k");
    let status = harness.inspect(&key).await;
    assert_eq!((&status.key, status.phase), (&key, Phase::Free));
    assert_eq!((status.holder, status.generation, status.remaining), (None, None, None));
    assert_eq!((status.since, status.waiters), (None, 0));
}

pub async fn a_held_key_shows_its_holder(harness: &Harness) {
    let meta = expect_ok(Meta::new("room 7"));
    let held = harness.grant(harness.claim(&harness.key("k"), "ann").meta(meta.clone())).await;
    let status = harness.inspect(held.key()).await;
    assert_eq!((&status.key, status.phase), (held.key(), Phase::Held));
    assert_eq!(status.holder, Some(harness.holder("ann")));
    assert_eq!(status.generation, Some(held.generation()));
    assert_eq!(status.meta, meta);
    assert!(status.since.is_some());
}

pub async fn a_renewal_keeps_since_and_meta(harness: &Harness) {
    let meta = expect_ok(Meta::new("room 7"));
    let held = harness.grant(harness.claim(&harness.key("k"), "ann").meta(meta)).await;
    let before = harness.inspect(held.key()).await;
    harness.pass(std::time::Duration::from_millis(50)).await;
    harness.renew(&held).await;
    let after = harness.inspect(held.key()).await;
    assert_eq!((after.since, after.meta), (before.since, before.meta));
}

pub async fn a_released_key_shows_no_holder(harness: &Harness) {
    let meta = expect_ok(Meta::new("room 7"));
    let held = harness.grant(harness.claim(&harness.key("k"), "ann").meta(meta)).await;
    harness.release_held(&held).await;
    let status = harness.inspect(held.key()).await;
    assert_eq!((status.phase, status.holder, status.remaining), (Phase::Free, None, None));
    assert_eq!((status.meta, status.since), (Meta::default(), None));
}

pub async fn an_expired_key_is_free_without_any_sweep(harness: &Harness) {
    let held = harness.hold_briefly(&harness.key("k"), "ann").await;
    harness.outlive(held.lease.ttl).await;
    let status = harness.inspect(held.key()).await;
    assert_eq!((status.phase, status.holder), (Phase::Free, None));
    assert_eq!(status.generation, Some(held.generation()));
}

pub async fn a_stalled_store_shows_no_expired_holder(harness: &Harness) {
    let held = harness.hold_briefly(&harness.key("k"), "ann").await;
    harness.stall(held.lease.ttl.as_duration() + super::time::ROUNDING).await;
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
}

pub async fn another_handle_shows_the_same(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let (one, two) =
        (harness.inspect(held.key()).await, expect_ok(harness.second().inspect(held.key()).await));
    assert_eq!((one.phase, one.holder, one.generation), (two.phase, two.holder, two.generation));
    assert_eq!((one.meta, one.since, one.waiters), (two.meta, two.since, two.waiters));
}

pub async fn inspect_does_not_refresh(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.pass(std::time::Duration::from_millis(200)).await;
    harness.inspect(held.key()).await;
    harness.ends(held.key()).await.assert_before(held.answered, held.lease.ttl.as_duration());
}

pub async fn a_record_is_not_shown_as_a_lease(harness: &Harness) {
    let key = harness.key("k");
    let held = harness.hold(&key, "ann").await;
    harness.release_held(&held).await;
    harness.put(&key, "a secret").await;
    let status = harness.inspect(&key).await;
    assert_eq!((status.phase, status.holder), (Phase::Free, None));
    let listed = expect_ok(harness.store().list(&tenure_lease::Query::new(harness.prefix())).await);
    assert!(listed.items.is_empty(), "{listed:?}");
}

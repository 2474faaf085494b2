//! Giving a key back.

use tenure_lease::{Phase, Release, Released};

use super::{Harness, expect_ok};

pub async fn a_release_frees_at_once(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.release_held(&held).await;
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
    let next = harness.hold(held.key(), "bob").await;
    assert!(next.generation() > held.generation());
}

pub async fn the_token_alone_is_enough(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let release = Release::new(held.key().clone(), held.token.clone());
    assert_eq!(expect_ok(harness.store().release(release).await), Released::Released);
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
}

pub async fn another_handle_may_release(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    assert_eq!(expect_ok(harness.second().release(held.release(None)).await), Released::Released);
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
}

pub async fn a_second_release_holds_nothing(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.release_held(&held).await;
    assert_eq!(expect_ok(harness.store().release(held.release(None)).await), Released::NotHeld);
}

pub async fn a_second_release_does_not_touch_the_next_reign(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.release_held(&held).await;
    let next = harness.hold(held.key(), "bob").await;
    let release = Release::new(held.key().clone(), held.token.clone());
    assert_eq!(expect_ok(harness.store().release(release).await), Released::NotHeld);
    harness.assert_live(&next).await;
}

pub async fn a_wrong_token_releases_nothing(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let wrong = Release { token: harness.token(), ..held.release(None) };
    assert_eq!(expect_ok(harness.store().release(wrong).await), Released::NotHeld);
    harness.assert_live(&held).await;
}

pub async fn a_wrong_generation_releases_nothing(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let wrong = Release { generation: Some(held.other_generation()), ..held.release(None) };
    assert_eq!(expect_ok(harness.store().release(wrong).await), Released::NotHeld);
    harness.assert_live(&held).await;
    harness.release_held(&held).await;
}

pub async fn an_expired_lease_is_not_held(harness: &Harness) {
    let held = harness.hold_briefly(&harness.key("k"), "ann").await;
    harness.outlive(held.lease.ttl).await;
    assert_eq!(expect_ok(harness.store().release(held.release(None)).await), Released::NotHeld);
}

pub async fn a_release_to_a_successor_by_a_wrong_token_reserves_nothing(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let successor = Some(harness.holder("bob"));
    let wrong = Release { token: harness.token(), ..held.release(successor.clone()) };
    assert_eq!(expect_ok(harness.store().release(wrong).await), Released::NotHeld);
    harness.assert_live(&held).await;
    harness.release_held(&held).await;
    assert_eq!(expect_ok(harness.store().release(held.release(successor)).await), Released::NotHeld);
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
}

pub async fn a_release_grants_to_waiters_in_fifo_order(harness: &Harness) {
    let key = harness.key("k");
    let mut reign = harness.hold(&key, "ann").await;
    let bob = harness.queue(&key, "bob").await;
    let cat = harness.park_at(harness.second(), harness.claim(&key, "cat")).await;
    let mut dan = harness.queue(&key, "dan").await;
    for (mut next, left) in [(bob, 2), (cat, 1)] {
        assert!(next.is_parked() && dan.is_parked());
        harness.release_held(&reign).await;
        let granted = next.granted(harness).await;
        assert!(granted.generation() > reign.generation());
        harness.until_parked(&key, left).await;
        harness.assert_live(&granted).await;
        reign = granted;
    }
    assert!(dan.is_parked());
    harness.release_held(&reign).await;
    let last = dan.granted(harness).await;
    assert!(last.generation() > reign.generation());
    assert_eq!(harness.inspect(&key).await.waiters, 0);
}

//! What a token is to a key.

use std::time::Duration;

use tenure_lease::{Release, Verified};

use super::{Harness, expect_ok};

pub async fn a_live_token_is_live(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let asked = harness.now();
    let Verified::Live { generation, remaining } = harness.verify(&held).await else {
        panic!("it holds the key")
    };
    assert_eq!(generation, held.generation());
    let ends = harness.span(asked, remaining);
    ends.assert_after(held.sent, held.lease.ttl.as_duration());
    ends.assert_before(held.answered, held.lease.ttl.as_duration());
}

pub async fn verify_never_refreshes(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.pass(Duration::from_millis(200)).await;
    harness.assert_live(&held).await;
    harness.ends(held.key()).await.assert_before(held.answered, held.lease.ttl.as_duration());
}

pub async fn a_released_token_has_ended(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.release_held(&held).await;
    assert_eq!(harness.verify(&held).await, Verified::Ended);
}

pub async fn an_expired_token_has_ended(harness: &Harness) {
    let held = harness.hold_briefly(&harness.key("k"), "ann").await;
    harness.outlive(held.lease.ttl).await;
    assert_eq!(harness.verify(&held).await, Verified::Ended);
    harness.hold(held.key(), "bob").await;
    assert_eq!(harness.verify(&held).await, Verified::Ended);
}

pub async fn a_replaced_token_has_ended(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let next = harness.replace(&held, "bob").await;
    assert_eq!(harness.verify(&held).await, Verified::Ended);
    harness.assert_live(&next).await;
}

pub async fn a_token_released_without_a_lease_has_ended(harness: &Harness) {
    let (key, token) = (harness.key("k"), harness.token());
    expect_ok(harness.store().release(Release::new(key.clone(), token.clone())).await);
    assert_eq!(expect_ok(harness.store().verify(&key, &token).await), Verified::Ended);
}

pub async fn an_unknown_token_is_wrong(harness: &Harness) {
    let key = harness.key("k");
    assert_eq!(expect_ok(harness.store().verify(&key, &harness.token()).await), Verified::Wrong);
    harness.hold(&key, "ann").await;
    assert_eq!(expect_ok(harness.store().verify(&key, &harness.token()).await), Verified::Wrong);
}

pub async fn a_token_of_another_key_is_wrong(harness: &Harness) {
    let held = harness.hold(&harness.key("a"), "ann").await;
    harness.hold(&harness.key("b"), "bob").await;
    assert_eq!(expect_ok(harness.store().verify(&harness.key("b"), &held.token).await), Verified::Wrong);
}

pub async fn verify_creates_nothing(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann");
    expect_ok(harness.store().verify(&claim.key, &claim.token).await);
    assert_eq!(harness.inspect(&claim.key).await.phase, tenure_lease::Phase::Free);
    harness.grant(claim).await;
}

//! `instead_of`: replacing a predecessor that is proven dead.

use std::time::Duration;

use tenure_lease::{BusyReason, Phase};

use super::{Harness, expect_ok};

pub async fn exactly_the_named_generation_is_replaced(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let next = harness.replace(&held, "bob").await;
    assert!(next.generation() > held.generation());
    assert!(!next.parked);
    let status = harness.inspect(held.key()).await;
    assert_eq!((status.phase, status.holder), (Phase::Held, Some(harness.holder("bob"))));
    harness.assert_live(&next).await;
}

pub async fn another_generation_is_not_replaced(harness: &Harness) {
    let first = harness.hold(&harness.key("k"), "ann").await;
    let held = harness.replace(&first, "ann").await;
    for stale in [first.generation(), held.other_generation()] {
        let busy = harness.busy(harness.claim(held.key(), "bob").instead_of(stale)).await;
        assert_eq!(busy.reason, BusyReason::NotThatGeneration);
        assert_eq!(busy.generation, Some(held.generation()));
    }
    harness.assert_live(&held).await;
}

pub async fn a_free_key_cannot_be_replaced(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.release_held(&held).await;
    let claim = harness.claim(held.key(), "bob").instead_of(held.generation());
    assert_eq!(harness.busy(claim).await.reason, BusyReason::NotThatGeneration);
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
}

pub async fn an_expired_reign_cannot_be_replaced(harness: &Harness) {
    let held = harness.hold_briefly(&harness.key("k"), "ann").await;
    harness.outlive(held.lease.ttl).await;
    let claim = harness.claim(held.key(), "bob").instead_of(held.generation());
    assert_eq!(harness.busy(claim).await.reason, BusyReason::NotThatGeneration);
}

pub async fn a_revoked_reign_cannot_be_replaced(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.revoke(&held, None).await;
    let claim = harness.claim(held.key(), "bob").instead_of(held.generation());
    assert_eq!(harness.busy(claim).await.reason, BusyReason::NotThatGeneration);
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Delayed);
}

pub async fn a_replacement_skips_the_queue(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let mut cat = harness.queue(held.key(), "cat").await;
    let next = harness.replace(&held, "bob").await;
    assert!(cat.is_parked());
    harness.assert_live(&next).await;
    harness.release_held(&next).await;
    assert!(cat.granted(harness).await.generation() > next.generation());
}

pub async fn two_replacements_of_one_generation_have_one_winner(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let (one, two) = (harness.store(), harness.second());
    let claim = |who| harness.claim(held.key(), who).instead_of(held.generation());
    let answers = tokio::join!(one.acquire(claim("bob")), two.acquire(claim("cat")));
    let granted = [expect_ok(answers.0), expect_ok(answers.1)]
        .iter()
        .filter(|answer| matches!(answer, tenure_lease::Acquired::Granted(_)))
        .count();
    assert_eq!(granted, 1);
}

pub async fn the_same_token_again_gets_the_replacement_again(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let claim = harness.claim(held.key(), "bob").instead_of(held.generation());
    let first = harness.grant(claim.clone()).await;
    harness.pass(Duration::from_millis(10)).await;
    assert_eq!(harness.grant(claim).await.lease, first.lease);
}

pub async fn a_replacement_does_not_wait_for_a_record(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.release_held(&held).await;
    harness.put(held.key(), "a record").await;
    let claim = harness.claim(held.key(), "bob").instead_of(held.generation());
    let busy = harness.busy(claim.waiting(Duration::from_secs(60))).await;
    assert_eq!(busy.reason, BusyReason::Foreign);
    assert_eq!(harness.inspect(held.key()).await.waiters, 0);
    harness.write(&[tenure_lease::Op::Delete { key: held.key().clone() }]).await;
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
}

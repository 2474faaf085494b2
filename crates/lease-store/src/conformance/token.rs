//! A token serves one reign.

use std::time::Duration;

use tenure_lease::{Phase, Release, Released, Wipe};

use super::{Harness, expect_ok};

pub async fn a_token_is_spent_by_its_release(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann");
    let held = harness.grant(claim.clone()).await;
    harness.release_held(&held).await;
    harness.spent(claim.clone()).await;
    harness.spent(claim.clone().waiting(Duration::from_secs(60))).await;
    assert_eq!(harness.inspect(&claim.key).await.phase, Phase::Free);
}

pub async fn a_spent_token_stays_spent_while_others_reign(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann");
    let held = harness.grant(claim.clone()).await;
    harness.release_held(&held).await;
    let next = harness.hold(held.key(), "bob").await;
    harness.spent(claim.clone()).await;
    harness.release_held(&next).await;
    harness.spent(claim).await;
}

pub async fn a_spent_token_is_spent_for_other_handles_too(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann");
    let held = harness.grant(claim.clone()).await;
    assert_eq!(expect_ok(harness.second().release(held.release(None)).await), Released::Released);
    harness.spent(claim).await;
}

pub async fn a_token_is_spent_by_a_release_to_a_successor(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann");
    let held = harness.grant(claim.clone()).await;
    expect_ok(harness.store().release(held.release(Some(harness.holder("bob")))).await);
    harness.spent(claim).await;
}

pub async fn a_token_is_spent_by_its_transfer(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann");
    let held = harness.grant(claim.clone()).await;
    let successor = harness.queue(held.key(), "bob").await;
    harness.transfer_held(&held, "bob").await;
    harness.spent(claim).await;
    successor.granted(harness).await;
}

pub async fn a_token_is_spent_by_its_revocation(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann");
    let held = harness.grant(claim.clone()).await;
    harness.revoke(&held, Some(Duration::ZERO)).await;
    harness.spent(claim).await;
}

pub async fn a_token_is_spent_by_a_wipe(harness: &Harness) {
    let gate = harness.hold(&harness.key("gate"), "op").await;
    let claim = harness.claim(&harness.key("t/1"), "ann");
    harness.grant(claim.clone()).await;
    expect_ok(harness.store().wipe(Wipe { prefix: harness.under("t/"), gate: gate.proof() }).await);
    harness.spent(claim).await;
}

pub async fn a_token_is_spent_by_its_replacement(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann");
    let held = harness.grant(claim.clone()).await;
    let next = harness.replace(&held, "bob").await;
    harness.spent(claim.clone()).await;
    harness.release_held(&next).await;
    harness.spent(claim).await;
}

pub async fn a_released_token_that_held_nothing_cannot_be_granted_late(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann");
    let release = Release::new(claim.key.clone(), claim.token.clone());
    assert_eq!(expect_ok(harness.store().release(release).await), Released::NotHeld);
    // The acquire that was meant to come before the release arrives now.
    harness.spent(claim.clone()).await;
    assert_eq!(harness.inspect(&claim.key).await.phase, Phase::Free);
    harness.hold(&claim.key, "bob").await;
}

pub async fn a_token_released_on_a_busy_key_cannot_be_granted_late(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let claim = harness.claim(held.key(), "bob");
    let release = Release::new(claim.key.clone(), claim.token.clone());
    assert_eq!(expect_ok(harness.store().release(release).await), Released::NotHeld);
    harness.release_held(&held).await;
    harness.spent(claim).await;
}

pub async fn a_token_released_without_a_lease_stays_spent_for_a_minute(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann");
    let release = Release::new(claim.key.clone(), claim.token.clone());
    expect_ok(harness.store().release(release).await);
    if harness.virtual_time() {
        // Elsewhere a minute is too long: the engines' own tests cover it.
        harness.pass(Duration::from_secs(59)).await;
    }
    harness.spent(claim).await;
}

pub async fn a_released_token_that_expired_cannot_be_granted_again(harness: &Harness) {
    let claim = harness.brief_claim(&harness.key("k"), "ann");
    let held = harness.grant(claim.clone()).await;
    harness.outlive(held.lease.ttl).await;
    assert_eq!(expect_ok(harness.store().release(held.release(None)).await), Released::NotHeld);
    harness.spent(claim).await;
}

pub async fn a_token_released_while_parked_is_not_granted(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let claim = harness.claim(held.key(), "bob");
    let _bob = harness.park(claim.clone()).await;
    let release = Release::new(claim.key.clone(), claim.token.clone());
    assert_eq!(expect_ok(harness.store().release(release).await), Released::NotHeld);
    harness.release_held(&held).await;
    harness.until_free(held.key()).await;
    assert_eq!(harness.inspect(held.key()).await.generation, Some(held.generation()));
}

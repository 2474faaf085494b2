//! A store that may have forgotten holders over a restart grants no free key until all of them have stopped.

use std::time::Duration;

use tenure_lease::{BusyReason, Error, Phase, Renewed};

use super::{Harness, HeldLease, expect_refusal};

pub async fn a_free_key_is_not_granted_during_a_quarantine(harness: &Harness) {
    let held = harness.hold(&harness.key("released"), "ann").await;
    harness.release_held(&held).await;
    harness.restart().await;
    for name in ["new", "released"] {
        let busy = harness.busy(harness.claim(&harness.key(name), "bob")).await;
        assert_eq!(busy.reason, BusyReason::Quarantine, "{name}: {busy:?}");
        assert_eq!(harness.inspect(&harness.key(name)).await.phase, Phase::Free);
    }
}

pub async fn a_key_that_is_released_during_a_quarantine_is_not_granted(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.restart().await;
    assert!(matches!(harness.renew(&held).await, Renewed::Renewed { .. }));
    harness.release_held(&held).await;
    let busy = harness.busy(harness.claim(held.key(), "bob")).await;
    assert_eq!(busy.reason, BusyReason::Quarantine, "{busy:?}");
}

pub async fn a_claim_may_wait_for_the_end_of_a_quarantine(harness: &Harness) {
    let before = harness.hold(&harness.key("k"), "ann").await;
    harness.release_held(&before).await;
    let sent = harness.now();
    harness.restart().await;
    let after = harness.grant(harness.claim(before.key(), "bob").waiting(Duration::from_secs(60))).await;
    assert!(after.generation() > before.generation());
    // A holder that was forgotten had its lease before the restart, for the longest TTL at most.
    let waited = after.answered.since(sent) + super::time::ROUNDING;
    assert!(waited >= harness.capabilities().max_ttl.as_duration(), "granted after {waited:?}");
}

/// A lease that the store still has after a restart.
async fn held_over_a_restart(harness: &Harness) -> HeldLease {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.restart().await;
    held
}

pub async fn a_release_during_a_quarantine_hands_nothing_on(harness: &Harness) {
    let held = held_over_a_restart(harness).await;
    let mut bob = harness.queue(held.key(), "bob").await;
    harness.release_held(&held).await;
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
    assert!(bob.is_parked());
}

pub async fn a_revocation_during_a_quarantine_hands_nothing_on(harness: &Harness) {
    let held = held_over_a_restart(harness).await;
    let mut bob = harness.queue(held.key(), "bob").await;
    harness.revoke(&held, Some(Duration::ZERO)).await;
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
    assert!(bob.is_parked());
}

pub async fn a_reign_is_transferred_during_a_quarantine_only_after_a_renewal(harness: &Harness) {
    let held = held_over_a_restart(harness).await;
    let bob = harness.queue(held.key(), "bob").await;
    let refused = expect_refusal(harness.store().transfer(held.transfer(harness.holder("bob"))).await);
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
    harness.assert_live(&held).await;
    harness.renew(&held).await;
    let next = harness.transfer_held(&held, "bob").await;
    assert!(next.generation > held.generation());
    bob.granted(harness).await;
}

pub async fn a_reign_is_replaced_during_a_quarantine_only_after_a_renewal(harness: &Harness) {
    let held = held_over_a_restart(harness).await;
    let claim = harness.claim(held.key(), "bob").instead_of(held.generation());
    assert_eq!(harness.busy(claim).await.reason, BusyReason::Quarantine);
    harness.renew(&held).await;
    assert!(harness.replace(&held, "bob").await.generation() > held.generation());
}

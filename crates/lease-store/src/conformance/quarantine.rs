//! A store that may have forgotten holders over a restart grants no free key until all of them have stopped.

use std::time::Duration;

use tenure_lease::{BusyReason, Phase, Renewed};

use super::Harness;

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

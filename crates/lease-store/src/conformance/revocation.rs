//! The operator's force and its lock-delay.

use std::time::Duration;

use tenure_lease::{Acquired, BusyReason, Phase, Renewed, Revoke, Revoked, Tick};

use super::verbs::put;
use super::{Harness, expect_ok, expect_refusal};

#[track_caller]
fn assert_passed(harness: &Harness, sent: Tick, delay: Duration) {
    let passed = harness.now().since(sent) + super::time::ROUNDING;
    assert!(passed >= delay, "granted {passed:?} after a revocation with a delay of {delay:?}");
}

pub async fn a_revocation_ends_the_reign(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.revoke(&held, None).await;
    assert!(matches!(harness.renew(&held).await, Renewed::Lost(_)));
    assert_eq!(harness.verify(&held).await, tenure_lease::Verified::Ended);
}

pub async fn a_stale_revocation_changes_nothing(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let stale = Revoke { generation: held.other_generation(), ..held.revoke(None) };
    let current = Some(held.generation());
    assert_eq!(expect_ok(harness.store().revoke(stale).await), Revoked::Stale { current });
    harness.assert_live(&held).await;
}

pub async fn an_ended_reign_cannot_be_revoked(harness: &Harness) {
    let released = harness.hold(&harness.key("a"), "ann").await;
    harness.release_held(&released).await;
    let expired = harness.hold_briefly(&harness.key("b"), "ann").await;
    harness.outlive(expired.lease.ttl).await;
    for held in [released, expired] {
        let answer = expect_ok(harness.store().revoke(held.revoke(None)).await);
        assert_eq!(answer, Revoked::Stale { current: None });
        assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
    }
}

pub async fn a_second_revocation_is_stale_and_extends_nothing(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let delay = harness.revoke(&held, Some(Duration::from_secs(5))).await;
    let answered = harness.now();
    let again = expect_ok(harness.store().revoke(held.revoke(Some(Duration::from_secs(20)))).await);
    assert_eq!(again, Revoked::Stale { current: None });
    harness.ends(held.key()).await.assert_before(answered, delay);
}

pub async fn the_delay_defaults_to_the_remaining_ttl(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.pass(Duration::from_millis(100)).await;
    let asked = harness.now();
    let delay = harness.revoke(&held, None).await;
    let ends = harness.span(asked, delay);
    ends.assert_after(held.sent, held.lease.ttl.as_duration());
    ends.assert_before(held.answered, held.lease.ttl.as_duration());
}

pub async fn the_delay_is_as_requested(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let (asked, sent) = (Duration::from_secs(7), harness.now());
    assert_eq!(harness.revoke(&held, Some(asked)).await, asked);
    let answered = harness.now();
    let ends = harness.ends(held.key()).await;
    ends.assert_after(sent, asked);
    ends.assert_before(answered, asked);
}

pub async fn inspect_shows_a_delay(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.revoke(&held, None).await;
    let status = harness.inspect(held.key()).await;
    assert_eq!((status.phase, status.holder), (Phase::Delayed, None));
    assert_eq!(status.generation, Some(held.generation()));
    assert!(status.remaining.is_some());
}

pub async fn a_delayed_key_is_busy(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let delay = harness.revoke(&held, None).await;
    for who in ["bob", "ann"] {
        let busy = harness.busy(harness.claim(held.key(), who)).await;
        assert_eq!((busy.reason, busy.holder), (BusyReason::Delayed, None));
        assert_eq!(busy.generation, Some(held.generation()));
        assert!(busy.remaining.is_some_and(|left| left <= delay), "{:?}", busy.remaining);
    }
}

pub async fn a_zero_delay_frees_at_once(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    assert_eq!(harness.revoke(&held, Some(Duration::ZERO)).await, Duration::ZERO);
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
    let next = harness.hold(held.key(), "bob").await;
    assert!(next.generation() > held.generation());
}

pub async fn a_delayed_key_is_granted_after_the_delay_and_not_before(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let (sent, delay) = (harness.now(), harness.ttl().as_duration());
    harness.revoke(&held, Some(delay)).await;
    harness
        .until("the delay is over", || async {
            matches!(harness.acquire(harness.claim(held.key(), "bob")).await, Acquired::Granted(_))
        })
        .await;
    assert_passed(harness, sent, delay);
}

pub async fn an_expired_delay_needs_no_sweep(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.revoke(&held, Some(harness.ttl().as_duration())).await;
    harness.outlive(harness.ttl()).await;
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
    harness.hold(held.key(), "bob").await;
}

pub async fn a_waiter_is_granted_after_the_delay_and_not_before(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let bob = harness.queue(held.key(), "bob").await;
    let (sent, delay) = (harness.now(), harness.ttl().as_duration());
    harness.revoke(&held, Some(delay)).await;
    let next = bob.granted(harness).await;
    assert_passed(harness, sent, delay);
    assert!(next.generation() > held.generation());
}

pub async fn a_claim_may_wait_for_the_end_of_a_delay(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let (sent, delay) = (harness.now(), harness.ttl().as_duration() * 4);
    harness.revoke(&held, Some(delay)).await;
    harness.queue(held.key(), "bob").await.granted(harness).await;
    assert_passed(harness, sent, delay);
}

pub async fn without_a_delay_the_head_of_the_queue_is_granted(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let bob = harness.queue(held.key(), "bob").await;
    let mut cat = harness.queue(held.key(), "cat").await;
    harness.revoke(&held, Some(Duration::ZERO)).await;
    bob.granted(harness).await;
    assert!(cat.is_parked());
}

pub async fn a_delayed_key_takes_no_record(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.revoke(&held, Some(Duration::from_secs(20))).await;
    let error = expect_refusal(harness.store().commit(&[put(held.key(), "1")]).await);
    assert!(
        matches!(error, tenure_lease::Error::Refused(tenure_lease::Refusal::KeyIsLeased { .. })),
        "{error}"
    );
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Delayed);
}

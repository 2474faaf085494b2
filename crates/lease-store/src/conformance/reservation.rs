//! A release to a named successor.

use std::time::Duration;

use tenure_lease::{Acquired, BusyReason, Phase, Released, limits};

use super::{Harness, HeldLease, expect_ok};

const RESERVATION: Duration = Duration::from_millis(limits::RESERVATION_MS);

async fn give_to(harness: &Harness, held: &HeldLease, successor: &str) {
    let release = held.release(Some(harness.holder(successor)));
    assert_eq!(expect_ok(harness.store().release(release).await), Released::Released);
}

pub async fn a_parked_successor_is_granted_at_once(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let mut bob = harness.queue(held.key(), "bob").await;
    let cat = harness.queue(held.key(), "cat").await;
    give_to(harness, &held, "cat").await;
    let next = cat.granted(harness).await;
    assert!(next.parked && next.generation() > held.generation());
    assert!(bob.is_parked());
    harness.assert_live(&next).await;
}

pub async fn a_key_is_reserved_for_a_successor_that_is_not_parked(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let sent = harness.now();
    give_to(harness, &held, "bob").await;
    let answered = harness.now();
    let status = harness.inspect(held.key()).await;
    assert_eq!((status.phase, status.holder), (Phase::Reserved, Some(harness.holder("bob"))));
    let ends = harness.ends(held.key()).await;
    ends.assert_after(sent, RESERVATION);
    ends.assert_before(answered, RESERVATION);
}

pub async fn a_reserved_key_is_busy_for_others(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    give_to(harness, &held, "bob").await;
    let busy = harness.busy(harness.claim(held.key(), "cat")).await;
    assert_eq!((busy.reason, busy.holder), (BusyReason::Reserved, Some(harness.holder("bob"))));
    assert!(busy.remaining.is_some_and(|left| left <= RESERVATION), "{:?}", busy.remaining);
}

pub async fn a_reserved_key_is_busy_for_its_former_holder(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    give_to(harness, &held, "bob").await;
    assert_eq!(harness.busy(harness.claim(held.key(), "ann")).await.reason, BusyReason::Reserved);
}

pub async fn a_reserved_key_is_granted_to_the_successor(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    give_to(harness, &held, "bob").await;
    let next = harness.hold(held.key(), "bob").await;
    assert!(next.generation() > held.generation());
    harness.ends(held.key()).await.assert_after(next.sent, next.lease.ttl.as_duration());
}

pub async fn a_successor_comes_before_the_queue(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let mut cat = harness.queue(held.key(), "cat").await;
    give_to(harness, &held, "bob").await;
    assert!(cat.is_parked());
    let next = harness.hold(held.key(), "bob").await;
    assert!(cat.is_parked());
    harness.release_held(&next).await;
    cat.granted(harness).await;
}

pub async fn a_reservation_ends_for_others_and_not_before(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let sent = harness.now();
    give_to(harness, &held, "bob").await;
    harness
        .until("the reservation is over", || async {
            match harness.acquire(harness.claim(held.key(), "cat")).await {
                Acquired::Granted(_) => true,
                Acquired::Busy(busy) => {
                    assert_eq!(busy.reason, BusyReason::Reserved);
                    false
                }
            }
        })
        .await;
    let passed = harness.now().since(sent) + super::time::ROUNDING;
    assert!(passed >= RESERVATION, "granted after {passed:?}");
}

pub async fn an_unused_reservation_goes_to_the_queue(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let cat = harness.queue(held.key(), "cat").await;
    let sent = harness.now();
    give_to(harness, &held, "bob").await;
    let next = cat.granted(harness).await;
    let passed = next.answered.since(sent) + super::time::ROUNDING;
    assert!(passed >= RESERVATION, "granted after {passed:?}");
    assert!(next.generation() > held.generation());
}

pub async fn an_unused_reservation_becomes_free(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    give_to(harness, &held, "bob").await;
    harness.pass(RESERVATION + super::time::ROUNDING).await;
    let status = harness.inspect(held.key()).await;
    assert_eq!((status.phase, status.holder), (Phase::Free, None));
}

pub async fn a_claim_may_wait_for_the_end_of_a_reservation(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    give_to(harness, &held, "bob").await;
    let next = harness.queue(held.key(), "cat").await.granted(harness).await;
    assert!(next.parked);
}

pub async fn a_record_may_use_a_key_whose_reservation_expired(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    give_to(harness, &held, "bob").await;
    harness.until_free(held.key()).await;
    // Longer than any doubt about the end of the reservation lasts.
    harness.pass(Duration::from_millis(1_500)).await;
    harness.put(held.key(), "bob").await;
    harness.assert_record(held.key(), Some("bob")).await;
    let found = expect_ok(harness.store().discover(&harness.prefix()).await);
    assert_eq!(found.iter().map(|record| record.key.clone()).collect::<Vec<_>>(), [held.key().clone()]);
}

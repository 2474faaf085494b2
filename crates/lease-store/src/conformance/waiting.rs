//! The queue of a key.

use std::time::Duration;

use tenure_lease::{Acquired, BusyReason, Op, Renewed};

use super::record::put_for;
use super::{Harness, expect_ok, expect_renewals};

pub async fn a_free_key_is_granted_without_waiting(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann").waiting(Duration::from_secs(60));
    let held = harness.grant(claim).await;
    assert!(!held.parked);
}

pub async fn a_grant_from_the_queue_says_that_it_was_parked(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let bob = harness.queue(held.key(), "bob").await;
    harness.release_held(&held).await;
    let next = bob.granted(harness).await;
    assert!(next.parked);
    assert!(next.generation() > held.generation());
    assert_eq!(next.lease.holder, harness.holder("bob"));
}

pub async fn a_grant_from_the_queue_is_confirmed_by_a_renewal(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let bob = harness.queue(held.key(), "bob").await;
    harness.release_held(&held).await;
    let next = bob.granted(harness).await;
    assert!(matches!(harness.renew(&next).await, Renewed::Renewed { .. }));
    harness.assert_live(&next).await;
}

pub async fn the_ttl_of_a_parked_claim_runs_from_the_grant(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let bob = harness.queue(held.key(), "bob").await;
    harness.pass(Duration::from_millis(200)).await;
    let sent = harness.now();
    harness.release_held(&held).await;
    let next = bob.granted(harness).await;
    harness.ends(held.key()).await.assert_after(sent, next.lease.ttl.as_duration());
}

pub async fn inspect_counts_waiters(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let _bob = harness.queue(held.key(), "bob").await;
    let _cat = harness.park_at(harness.second(), harness.claim(held.key(), "cat")).await;
    assert_eq!(harness.inspect(held.key()).await.waiters, 2);
    assert_eq!(expect_ok(harness.second().inspect(held.key()).await).waiters, 2);
}

pub async fn a_timed_out_wait_is_busy_with_its_queue_position(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let _bob = harness.queue(held.key(), "bob").await;
    let brief = harness.claim(held.key(), "cat").waiting(Duration::from_millis(300));
    let busy = harness.park(brief).await.busy(harness).await;
    assert_eq!((busy.reason, busy.position), (BusyReason::Held, 2));
    assert_eq!(busy.holder, Some(harness.holder("ann")));
    assert_eq!(busy.generation, Some(held.generation()));
}

pub async fn a_timed_out_wait_lasted_as_long_as_requested(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let (wait, sent) = (Duration::from_millis(300), harness.now());
    harness.busy(harness.claim(held.key(), "bob").waiting(wait)).await;
    assert!(harness.now().since(sent) + super::time::ROUNDING >= wait);
}

pub async fn a_timed_out_wait_leaves_no_waiter(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let claim = harness.claim(held.key(), "bob").waiting(Duration::from_millis(100));
    harness.busy(claim.clone()).await;
    assert_eq!(harness.inspect(held.key()).await.waiters, 0);
    harness.release_held(&held).await;
    let cat = harness.hold(held.key(), "cat").await;
    harness.release_held(&cat).await;
    // The claim that waited in vain spent nothing.
    harness.grant(claim).await;
}

pub async fn a_timed_out_wait_does_not_block_the_next_waiter(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let brief = harness.park(harness.claim(held.key(), "bob").waiting(Duration::from_millis(300))).await;
    let cat = harness.queue(held.key(), "cat").await;
    brief.busy(harness).await;
    harness.release_held(&held).await;
    assert_eq!(cat.granted(harness).await.lease.holder, harness.holder("cat"));
}

pub async fn a_zero_wait_returns_at_once(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let busy = harness.busy(harness.claim(held.key(), "bob").waiting(Duration::ZERO)).await;
    assert_eq!((busy.reason, busy.position), (BusyReason::Held, 1));
    assert_eq!(harness.inspect(held.key()).await.waiters, 0);
}

pub async fn an_expiry_wakes_the_head_of_the_queue(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let bob = harness.queue(held.key(), "bob").await;
    let mut cat = harness.queue(held.key(), "cat").await;
    harness.expire(&held).await;
    let next = bob.granted(harness).await;
    assert!(next.generation() > held.generation());
    assert!(cat.is_parked());
    harness.assert_live(&next).await;
}

pub async fn no_claim_overtakes_the_queue_at_a_release(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let bob = harness.queue(held.key(), "bob").await;
    harness.release_held(&held).await;
    let busy = harness.busy(harness.claim(held.key(), "cat")).await;
    assert!(matches!(busy.reason, BusyReason::Held | BusyReason::Queued), "{busy:?}");
    bob.granted(harness).await;
}

pub async fn no_claim_overtakes_the_queue_at_an_expiry(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let bob = harness.queue(held.key(), "bob").await;
    expect_renewals(harness.store().renew(&[held.renewal(Some(harness.ttl()))]).await);
    harness
        .until("the waiter has the key", || async {
            match harness.acquire(harness.claim(held.key(), "cat")).await {
                Acquired::Granted(grant) => panic!("overtook the queue: {grant:?}"),
                Acquired::Busy(busy) => busy.holder == Some(harness.holder("bob")),
            }
        })
        .await;
    bob.granted(harness).await;
}

pub async fn no_claim_overtakes_the_queue_after_a_stall(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let bob = harness.queue(held.key(), "bob").await;
    expect_renewals(harness.store().renew(&[held.renewal(Some(harness.ttl()))]).await);
    harness.stall(harness.ttl().as_duration() + super::time::ROUNDING).await;
    let busy = harness.busy(harness.claim(held.key(), "cat")).await;
    assert!(matches!(busy.reason, BusyReason::Held | BusyReason::Queued), "{busy:?}");
    assert!(bob.granted(harness).await.generation() > held.generation());
}

pub async fn a_waiter_stays_parked_while_the_holder_renews(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let mut bob = harness.queue(held.key(), "bob").await;
    for _ in 0..3 {
        harness.pass(Duration::from_millis(50)).await;
        assert!(matches!(harness.renew(&held).await, Renewed::Renewed { .. }));
    }
    assert!(bob.is_parked());
    harness.assert_live(&held).await;
}

pub async fn the_holder_is_not_put_into_its_own_queue(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann");
    let held = harness.grant(claim.clone()).await;
    let _bob = harness.queue(held.key(), "bob").await;
    let again = harness.grant(claim.waiting(Duration::from_secs(60))).await;
    assert_eq!(again.lease, held.lease);
}

pub async fn a_parked_duplicate_gets_the_same_lease(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let claim = harness.claim(held.key(), "bob").waiting(Duration::from_secs(60));
    let first = harness.park(claim.clone()).await;
    let second = harness.second();
    let mut again = tokio::task::JoinSet::new();
    again.spawn(async move { second.acquire(claim).await });
    harness.pass(Duration::from_millis(100)).await;
    harness.release_held(&held).await;
    let next = first.granted(harness).await;
    match harness.within("the answer to the duplicate", again.join_next()).await {
        Some(Ok(Ok(Acquired::Granted(grant)))) => assert_eq!(grant.lease, next.lease),
        other => panic!("the duplicate got {other:?}"),
    }
}

pub async fn a_claim_waits_for_a_record_to_be_deleted(harness: &Harness) {
    let key = harness.key("k");
    harness.put(&key, "1").await;
    let claim = harness.claim(&key, "ann").waiting(Duration::from_secs(60));
    let deleted = async {
        harness.pass(Duration::from_millis(100)).await;
        harness.write(&[Op::Delete { key: key.clone() }]).await
    };
    let (held, _) = tokio::join!(harness.grant(claim), deleted);
    assert!(held.parked);
    harness.assert_live(&held).await;
    assert_eq!(harness.inspect(&key).await.waiters, 0);
}

pub async fn a_claim_waits_for_the_ttl_of_a_record(harness: &Harness) {
    let (key, sent) = (harness.key("k"), harness.now());
    harness.write(&[put_for(&key, "1", harness.ttl())]).await;
    let held = harness.grant(harness.claim(&key, "ann").waiting(Duration::from_secs(60))).await;
    assert!(held.answered.since(sent) + super::time::ROUNDING >= harness.ttl().as_duration());
    assert!(held.parked);
    harness.assert_live(&held).await;
}

pub async fn a_wait_for_a_record_that_stays_times_out(harness: &Harness) {
    let (key, wait, sent) = (harness.key("k"), Duration::from_millis(300), harness.now());
    harness.put(&key, "1").await;
    let busy = harness.busy(harness.claim(&key, "ann").waiting(wait)).await;
    assert_eq!((busy.reason, busy.remaining), (BusyReason::Foreign, None));
    assert!(harness.now().since(sent) + super::time::ROUNDING >= wait);
    assert_eq!(harness.inspect(&key).await.waiters, 0);
    harness.assert_record(&key, Some("1")).await;
}

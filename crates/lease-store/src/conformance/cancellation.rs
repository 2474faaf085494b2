//! Dropped futures leave nothing behind.

use std::pin::pin;

use tenure_lease::Acquired;

use super::{Harness, expect_ok};

pub async fn a_dropped_waiter_leaves_the_queue(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let bob = harness.queue(held.key(), "bob").await;
    drop(bob);
    harness.until_parked(held.key(), 0).await;
    harness.release_held(&held).await;
    harness.hold(held.key(), "cat").await;
}

pub async fn a_dropped_waiter_does_not_block_the_next(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let mut claim = harness.claim(held.key(), "bob");
    claim.ttl = harness.orphan_ttl();
    let bob = harness.park(claim).await;
    let cat = harness.queue(held.key(), "cat").await;
    drop(bob);
    harness.release_held(&held).await;
    assert_eq!(cat.granted(harness).await.lease.holder, harness.holder("cat"));
}

pub async fn a_waiter_dropped_when_it_was_granted_frees_the_key_for_the_next(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let store = harness.store();
    let mut claim = harness.claim(held.key(), "bob").waiting(harness.long_ttl().as_duration());
    claim.ttl = harness.orphan_ttl();
    let mut bob = Box::pin(store.acquire(claim));
    tokio::select! {
        biased;
        answer = &mut bob => panic!("the key is held: {answer:?}"),
        () = harness.until_parked(held.key(), 1) => {}
    }
    let cat = harness.queue(held.key(), "cat").await;
    // Bob is not polled any more: what the release gives it, it never sees.
    harness.release_held(&held).await;
    drop(bob);
    assert_eq!(cat.granted(harness).await.lease.holder, harness.holder("cat"));
}

pub async fn a_waiter_dropped_when_it_was_granted_frees_the_key_for_any_claim(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let store = harness.store();
    let mut claim = harness.claim(held.key(), "bob").waiting(harness.long_ttl().as_duration());
    claim.ttl = harness.orphan_ttl();
    let mut bob = Box::pin(store.acquire(claim));
    tokio::select! {
        biased;
        answer = &mut bob => panic!("the key is held: {answer:?}"),
        () = harness.until_parked(held.key(), 1) => {}
    }
    harness.release_held(&held).await;
    drop(bob);
    let cat = harness.claim(held.key(), "cat").waiting(harness.long_ttl().as_duration());
    assert_eq!(harness.grant(cat).await.lease.holder, harness.holder("cat"));
}

pub async fn a_waiter_dropped_while_it_is_granted_frees_the_key_for_the_next(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let store = harness.store();
    let mut claim = harness.claim(held.key(), "bob").waiting(harness.long_ttl().as_duration());
    claim.ttl = harness.orphan_ttl();
    let mut bob = Box::pin(store.acquire(claim));
    tokio::select! {
        biased;
        answer = &mut bob => panic!("the key is held: {answer:?}"),
        () = harness.until_parked(held.key(), 1) => {}
    }
    let cat = harness.queue(held.key(), "cat").await;
    let mut release = Box::pin(store.release(held.release(None)));
    let answer = futures_util::poll!(&mut release);
    // The release is decided and not answered, or answered and not heard of by Bob.
    drop(bob);
    if answer.is_pending() {
        assert_eq!(expect_ok(release.await), tenure_lease::Released::Released);
    }
    assert_eq!(cat.granted(harness).await.lease.holder, harness.holder("cat"));
}

pub async fn an_acquire_dropped_in_flight_leaves_nothing_held(harness: &Harness) {
    let (key, store) = (harness.key("k"), harness.store());
    let mut claim = harness.claim(&key, "ann");
    claim.ttl = harness.orphan_ttl();
    {
        let mut acquire = pin!(store.acquire(claim.clone()));
        if let std::task::Poll::Ready(answer) = futures_util::poll!(&mut acquire) {
            // Answered at once, so nothing was on its way.
            assert!(matches!(expect_ok(answer), Acquired::Granted(_)));
            return;
        }
    }
    // It may still be in flight when the key is free, so Bob waits for its outcome.
    let bob = harness.claim(&key, "bob").waiting(harness.long_ttl().as_duration());
    assert_eq!(harness.grant(bob).await.lease.holder, harness.holder("bob"));
}

pub async fn a_dropped_waiter_leaves_its_duplicate_queued(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let (store, claim) = (harness.store(), harness.claim(held.key(), "bob"));
    let first = harness.park(claim.clone()).await;
    let mut duplicate = Box::pin(store.acquire(claim.clone().waiting(harness.long_ttl().as_duration())));
    assert!(futures_util::poll!(&mut duplicate).is_pending(), "the key is held");
    drop(first);
    harness.release_held(&held).await;
    assert!(matches!(expect_ok(duplicate.await), Acquired::Granted(_)));
    assert_is_held(harness, &claim).await;
}

pub async fn a_claim_dropped_in_flight_takes_nothing_from_its_duplicate(harness: &Harness) {
    let (key, store) = (harness.key("k"), harness.store());
    let claim = harness.claim(&key, "ann");
    let mut first = Box::pin(store.acquire(claim.clone()));
    let _ = futures_util::poll!(&mut first);
    let mut duplicate = Box::pin(store.acquire(claim.clone()));
    let answer = match futures_util::poll!(&mut duplicate) {
        std::task::Poll::Ready(answer) => {
            drop(first);
            answer
        }
        std::task::Poll::Pending => {
            drop(first);
            duplicate.await
        }
    };
    assert!(matches!(expect_ok(answer), Acquired::Granted(_)));
    assert_is_held(harness, &claim).await;
}

/// Waits for the cleanup of a dropped claim, and asserts that the answered one holds.
async fn assert_is_held(harness: &Harness, claim: &tenure_lease::Claim) {
    let other = harness.hold(&harness.key("other"), "cat").await;
    harness.release_held(&other).await;
    let verified = expect_ok(harness.store().verify(&claim.key, &claim.token).await);
    assert!(matches!(verified, tenure_lease::Verified::Live { .. }), "granted, and: {verified:?}");
}

pub async fn a_dropped_renewal_loses_nothing(harness: &Harness) {
    let (held, store) = (harness.hold(&harness.key("k"), "ann").await, harness.store());
    {
        let items = [held.renewal(None)];
        let mut renew = pin!(store.renew(&items));
        let _ = futures_util::poll!(&mut renew);
    }
    harness.assert_live(&held).await;
}

//! Which claim is granted, and what the others get.

use std::time::Duration;

use tenure_lease::{Acquired, BusyReason, Phase};

use super::{Harness, expect_ok};

/// Long enough to tell a refreshed lease from one that was left alone.
const WHILE: Duration = Duration::from_millis(200);

pub async fn a_free_key_is_granted(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann");
    let held = harness.grant(claim.clone()).await;
    assert_eq!(held.lease.key, claim.key);
    assert_eq!(held.lease.holder, claim.holder);
    assert_eq!(held.lease.ttl, claim.ttl);
    assert!(!held.parked, "the claim did not wait");
    assert_eq!(harness.inspect(&claim.key).await.phase, Phase::Held);
}

pub async fn a_grant_lasts_for_its_ttl(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let ends = harness.ends(held.key()).await;
    ends.assert_after(held.sent, held.lease.ttl.as_duration());
    ends.assert_before(held.answered, held.lease.ttl.as_duration());
}

pub async fn the_same_token_again_gets_the_same_generation(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann");
    let first = harness.grant(claim.clone()).await;
    let again = harness.grant(claim).await;
    assert_eq!(again.lease, first.lease);
}

pub async fn the_same_token_again_is_refreshed(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann");
    harness.grant(claim.clone()).await;
    harness.pass(WHILE).await;
    let again = harness.grant(claim.clone()).await;
    harness.ends(&claim.key).await.assert_after(again.sent, claim.ttl.as_duration());
}

pub async fn the_same_token_through_another_handle_gets_the_same_generation(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann");
    let first = harness.grant(claim.clone()).await;
    let Acquired::Granted(again) = expect_ok(harness.second().acquire(claim).await) else {
        panic!("the token holds the key")
    };
    assert_eq!(again.lease, first.lease);
}

pub async fn the_same_token_under_another_name_gets_the_same_generation(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann");
    let first = harness.grant(claim.clone()).await;
    let renamed = tenure_lease::Claim { holder: harness.holder("bob"), ..claim };
    assert_eq!(harness.grant(renamed).await.generation(), first.generation());
    harness.assert_live(&first).await;
}

pub async fn duplicates_at_the_same_time_get_one_generation(harness: &Harness) {
    for round in 0..8 {
        let claim = harness.claim(&harness.key(&format!("k{round}")), "ann");
        let (one, two) = (harness.store(), harness.second());
        let both = tokio::join!(one.acquire(claim.clone()), two.acquire(claim.clone()));
        let (Acquired::Granted(a), Acquired::Granted(b)) = (expect_ok(both.0), expect_ok(both.1)) else {
            panic!("one token, one reign, two answers")
        };
        assert_eq!(a.lease, b.lease);
    }
}

pub async fn busy_names_the_holder(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let busy = harness.busy(harness.claim(held.key(), "bob")).await;
    assert_eq!(busy.reason, BusyReason::Held);
    assert_eq!(busy.holder, Some(harness.holder("ann")));
    assert_eq!(busy.generation, Some(held.generation()));
}

pub async fn busy_gives_the_remaining_time(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let asked = harness.now();
    let Some(left) = harness.busy(harness.claim(held.key(), "bob")).await.remaining else {
        panic!("a lease has an end")
    };
    let ends = harness.span(asked, left);
    ends.assert_after(held.sent, held.lease.ttl.as_duration());
    ends.assert_before(held.answered, held.lease.ttl.as_duration());
}

pub async fn busy_gives_the_queue_position(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    assert_eq!(harness.busy(harness.claim(held.key(), "bob")).await.position, 1);
    let _bob = harness.queue(held.key(), "bob").await;
    let _cat = harness.queue(held.key(), "cat").await;
    assert_eq!(harness.busy(harness.claim(held.key(), "dan")).await.position, 3);
}

pub async fn a_busy_answer_changes_nothing(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.pass(WHILE).await;
    harness.busy(harness.claim(held.key(), "bob")).await;
    harness.assert_live(&held).await;
    harness.ends(held.key()).await.assert_before(held.answered, held.lease.ttl.as_duration());
    assert_eq!(harness.inspect(held.key()).await.waiters, 0);
}

pub async fn the_same_holder_with_another_token_is_busy(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let busy = harness.busy(harness.claim(held.key(), "ann")).await;
    assert_eq!((busy.reason, busy.holder), (BusyReason::Held, Some(harness.holder("ann"))));
    harness.assert_live(&held).await;
}

pub async fn another_handle_sees_the_grant(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let answer = expect_ok(harness.second().acquire(harness.claim(held.key(), "bob")).await);
    let Acquired::Busy(busy) = answer else { panic!("two holders of one key: {answer:?}") };
    assert_eq!(busy.generation, Some(held.generation()));
}

pub async fn an_expired_key_is_granted_with_a_greater_generation(harness: &Harness) {
    let held = harness.hold_briefly(&harness.key("k"), "ann").await;
    harness.outlive(held.lease.ttl).await;
    let next = harness.hold(held.key(), "bob").await;
    assert!(next.generation() > held.generation());
}

pub async fn the_same_token_after_expiry_starts_a_new_generation(harness: &Harness) {
    let claim = harness.brief_claim(&harness.key("k"), "ann");
    let held = harness.grant(claim.clone()).await;
    harness.outlive(claim.ttl).await;
    let next = harness.grant(claim).await;
    assert!(next.generation() > held.generation());
}

pub async fn a_live_key_is_not_granted_before_its_ttl_is_over(harness: &Harness) {
    let held = harness.hold_briefly(&harness.key("k"), "ann").await;
    harness
        .until("the key is granted to another", || async {
            matches!(harness.acquire(harness.claim(held.key(), "bob")).await, Acquired::Granted(_))
        })
        .await;
    let passed = harness.now().since(held.sent) + super::time::ROUNDING;
    assert!(passed >= held.lease.ttl.as_duration(), "granted after {passed:?}");
}

pub async fn keys_are_independent(harness: &Harness) {
    let ann = harness.hold(&harness.key("k"), "ann").await;
    let bob = harness.hold(&harness.key("k/1"), "bob").await;
    let cat = harness.hold(&harness.key("k1"), "cat").await;
    harness.release_held(&bob).await;
    harness.assert_live(&ann).await;
    harness.assert_live(&cat).await;
}

//! Handing a key to a parked successor in one step.

use tenure_lease::{Phase, Transfer, Transferred};

use super::{Harness, expect_ok};

pub async fn a_transfer_grants_to_the_named_waiter(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let bob = harness.queue(held.key(), "bob").await;
    let lease = harness.transfer_held(&held, "bob").await;
    assert_eq!((&lease.key, &lease.holder), (held.key(), &harness.holder("bob")));
    assert!(lease.generation > held.generation());
    let next = bob.granted(harness).await;
    assert_eq!(next.lease, lease);
    assert!(next.parked);
    harness.assert_live(&next).await;
}

pub async fn a_transfer_is_done_when_it_is_answered(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let bob = harness.queue(held.key(), "bob").await;
    let lease = harness.transfer_held(&held, "bob").await;
    let status = harness.inspect(held.key()).await;
    assert_eq!((status.phase, status.holder), (Phase::Held, Some(harness.holder("bob"))));
    assert_eq!(status.generation, Some(lease.generation));
    bob.granted(harness).await;
}

pub async fn a_transfer_gives_the_successor_its_own_ttl(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let mut claim = harness.claim(held.key(), "bob");
    claim.ttl = expect_ok(tenure_lease::Ttl::from_millis(harness.long_ttl().as_millis() - 1_000));
    let bob = harness.park(claim.clone()).await;
    let sent = harness.now();
    assert_eq!(harness.transfer_held(&held, "bob").await.ttl, claim.ttl);
    bob.granted(harness).await;
    harness.ends(held.key()).await.assert_after(sent, claim.ttl.as_duration());
}

pub async fn a_transfer_reaches_into_the_middle_of_the_queue(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let mut bob = harness.queue(held.key(), "bob").await;
    let cat = harness.park_at(harness.second(), harness.claim(held.key(), "cat")).await;
    let mut dan = harness.queue(held.key(), "dan").await;
    harness.transfer_held(&held, "cat").await;
    let second = cat.granted(harness).await;
    assert!(bob.is_parked() && dan.is_parked());
    harness.until_parked(held.key(), 2).await;
    // The others keep their order.
    harness.release_held(&second).await;
    let third = bob.granted(harness).await;
    assert!(dan.is_parked());
    harness.release_held(&third).await;
    dan.granted(harness).await;
}

pub async fn a_transfer_without_a_parked_successor_changes_nothing(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let mut cat = harness.queue(held.key(), "cat").await;
    let transfer = held.transfer(harness.holder("bob"));
    assert_eq!(expect_ok(harness.store().transfer(transfer).await), Transferred::NoSuccessor);
    harness.assert_live(&held).await;
    assert!(cat.is_parked());
    assert!(matches!(harness.renew(&held).await, tenure_lease::Renewed::Renewed { .. }));
}

pub async fn a_transfer_to_a_waiter_that_left_changes_nothing(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    drop(harness.queue(held.key(), "bob").await);
    harness.until_parked(held.key(), 0).await;
    let transfer = held.transfer(harness.holder("bob"));
    assert_eq!(expect_ok(harness.store().transfer(transfer).await), Transferred::NoSuccessor);
    harness.assert_live(&held).await;
}

pub async fn a_transfer_to_a_waiter_of_another_key_changes_nothing(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let other = harness.hold(&harness.key("other"), "ann").await;
    let mut bob = harness.queue(other.key(), "bob").await;
    let transfer = held.transfer(harness.holder("bob"));
    assert_eq!(expect_ok(harness.store().transfer(transfer).await), Transferred::NoSuccessor);
    harness.assert_live(&held).await;
    assert!(bob.is_parked());
}

pub async fn only_the_holder_may_transfer(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let mut bob = harness.queue(held.key(), "bob").await;
    let to = harness.holder("bob");
    let wrong = [
        Transfer { token: harness.token(), ..held.transfer(to.clone()) },
        Transfer { generation: held.other_generation(), ..held.transfer(to) },
    ];
    for transfer in wrong {
        assert_eq!(expect_ok(harness.store().transfer(transfer).await), Transferred::NotHeld);
    }
    harness.assert_live(&held).await;
    assert!(bob.is_parked());
}

pub async fn an_ended_reign_cannot_be_transferred(harness: &Harness) {
    let released = harness.hold(&harness.key("a"), "ann").await;
    harness.release_held(&released).await;
    let expired = harness.hold_briefly(&harness.key("b"), "ann").await;
    harness.outlive(expired.lease.ttl).await;
    for held in [released, expired] {
        let transfer = held.transfer(harness.holder("bob"));
        assert_eq!(expect_ok(harness.store().transfer(transfer).await), Transferred::NotHeld);
        assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
    }
}

//! A renewal says why the reign is over.

use std::time::Duration;

use tenure_lease::{End, Renewed, Wipe};

use super::{Harness, HeldLease, expect_ok};

async fn assert_lost(harness: &Harness, held: &HeldLease, end: End) {
    assert_eq!(harness.renew(held).await, Renewed::Lost(end));
}

pub async fn an_expired_reign_is_lost_as_expired(harness: &Harness) {
    let held = harness.hold_briefly(&harness.key("k"), "ann").await;
    harness.outlive(held.lease.ttl).await;
    assert_lost(harness, &held, End::Expired).await;
}

pub async fn an_expired_reign_is_lost_as_expired_though_another_began(harness: &Harness) {
    let held = harness.hold_briefly(&harness.key("k"), "ann").await;
    harness.outlive(held.lease.ttl).await;
    let next = harness.hold(held.key(), "bob").await;
    assert_lost(harness, &held, End::Expired).await;
    harness.assert_live(&next).await;
}

pub async fn a_released_reign_is_lost_as_released(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.release_held(&held).await;
    assert_lost(harness, &held, End::Released).await;
}

pub async fn a_released_reign_is_lost_as_released_though_another_began(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.release_held(&held).await;
    harness.hold(held.key(), "bob").await;
    assert_lost(harness, &held, End::Released).await;
}

pub async fn a_reign_released_to_a_successor_is_lost_as_released(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    expect_ok(harness.store().release(held.release(Some(harness.holder("bob")))).await);
    assert_lost(harness, &held, End::Released).await;
}

pub async fn a_transferred_reign_is_lost_as_transferred(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let successor = harness.queue(held.key(), "bob").await;
    harness.transfer_held(&held, "bob").await;
    successor.granted(harness).await;
    assert_lost(harness, &held, End::Transferred).await;
}

pub async fn a_revoked_reign_is_lost_as_revoked(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.revoke(&held, None).await;
    assert_lost(harness, &held, End::Revoked).await;
}

pub async fn a_revoked_reign_is_lost_as_revoked_though_another_began(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.revoke(&held, Some(Duration::ZERO)).await;
    harness.hold(held.key(), "bob").await;
    assert_lost(harness, &held, End::Revoked).await;
}

pub async fn a_replaced_reign_is_lost_as_superseded(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.replace(&held, "bob").await;
    assert_lost(harness, &held, End::Superseded).await;
}

pub async fn a_wiped_reign_is_lost_as_wiped(harness: &Harness) {
    let gate = harness.hold(&harness.key("gate"), "op").await;
    let held = harness.hold(&harness.key("t/1"), "ann").await;
    expect_ok(harness.store().wipe(Wipe { prefix: harness.under("t/"), gate: gate.proof() }).await);
    assert_lost(harness, &held, End::Wiped).await;
}

pub async fn a_loss_is_reported_the_same_again(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.release_held(&held).await;
    assert_lost(harness, &held, End::Released).await;
    assert_lost(harness, &held, End::Released).await;
}

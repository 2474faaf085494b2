//! A renewal says why the reign is over.

use std::time::Duration;

use lease::{End, Renewed, Wipe};

use super::{Held, World, said};

async fn assert_lost(world: &World, held: &Held, end: End) {
    assert_eq!(world.renew(held).await, Renewed::Lost(end));
}

pub async fn an_expired_reign_is_lost_as_expired(world: &World) {
    let held = world.hold_briefly(&world.key("k"), "ann").await;
    world.outlive(held.lease.ttl).await;
    assert_lost(world, &held, End::Expired).await;
}

pub async fn an_expired_reign_is_lost_as_expired_though_another_began(world: &World) {
    let held = world.hold_briefly(&world.key("k"), "ann").await;
    world.outlive(held.lease.ttl).await;
    let next = world.hold(held.key(), "bob").await;
    assert_lost(world, &held, End::Expired).await;
    world.assert_live(&next).await;
}

pub async fn a_released_reign_is_lost_as_released(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.give_back(&held).await;
    assert_lost(world, &held, End::Released).await;
}

pub async fn a_released_reign_is_lost_as_released_though_another_began(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.give_back(&held).await;
    world.hold(held.key(), "bob").await;
    assert_lost(world, &held, End::Released).await;
}

pub async fn a_reign_given_to_an_heir_is_lost_as_released(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    said(world.store().release(held.giving(Some(world.holder("bob")))).await);
    assert_lost(world, &held, End::Released).await;
}

pub async fn a_transferred_reign_is_lost_as_transferred(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let heir = world.queue(held.key(), "bob").await;
    world.hand_over(&held, "bob").await;
    heir.granted(world).await;
    assert_lost(world, &held, End::Transferred).await;
}

pub async fn a_revoked_reign_is_lost_as_revoked(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.revoke(&held, None).await;
    assert_lost(world, &held, End::Revoked).await;
}

pub async fn a_revoked_reign_is_lost_as_revoked_though_another_began(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.revoke(&held, Some(Duration::ZERO)).await;
    world.hold(held.key(), "bob").await;
    assert_lost(world, &held, End::Revoked).await;
}

pub async fn a_replaced_reign_is_lost_as_superseded(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.replace(&held, "bob").await;
    assert_lost(world, &held, End::Superseded).await;
}

pub async fn a_wiped_reign_is_lost_as_wiped(world: &World) {
    let gate = world.hold(&world.key("gate"), "op").await;
    let held = world.hold(&world.key("t/1"), "ann").await;
    said(world.store().wipe(Wipe { prefix: world.under("t/"), gate: gate.proof() }).await);
    assert_lost(world, &held, End::Wiped).await;
}

pub async fn a_loss_is_the_same_when_asked_again(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.give_back(&held).await;
    assert_lost(world, &held, End::Released).await;
    assert_lost(world, &held, End::Released).await;
}

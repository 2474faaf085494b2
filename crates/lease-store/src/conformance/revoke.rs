//! The operator's force and its lock-delay.

use std::time::Duration;

use lease::{Acquired, Phase, Reason, Renewed, Revoke, Revoked, Tick};

use super::ask::put;
use super::{World, refused, said};

#[track_caller]
fn assert_passed(world: &World, sent: Tick, delay: Duration) {
    let passed = world.now().since(sent) + super::time::ROUNDING;
    assert!(passed >= delay, "granted {passed:?} after a revocation with a delay of {delay:?}");
}

pub async fn a_revocation_ends_the_reign(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.revoke(&held, None).await;
    assert!(matches!(world.renew(&held).await, Renewed::Lost(_)));
    assert_eq!(world.verify(&held).await, lease::Verified::Ended);
}

pub async fn a_stale_revocation_changes_nothing(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let stale = Revoke { generation: held.other_generation(), ..held.revoking(None) };
    let current = Some(held.generation());
    assert_eq!(said(world.store().revoke(stale).await), Revoked::Stale { current });
    world.assert_live(&held).await;
}

pub async fn what_is_over_cannot_be_revoked(world: &World) {
    let released = world.hold(&world.key("a"), "ann").await;
    world.give_back(&released).await;
    let expired = world.hold_briefly(&world.key("b"), "ann").await;
    world.outlive(expired.lease.ttl).await;
    for held in [released, expired] {
        let answer = said(world.store().revoke(held.revoking(None)).await);
        assert_eq!(answer, Revoked::Stale { current: None });
        assert_eq!(world.inspect(held.key()).await.phase, Phase::Free);
    }
}

pub async fn a_second_revocation_is_stale_and_prolongs_nothing(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let delay = world.revoke(&held, Some(Duration::from_secs(5))).await;
    let told = world.now();
    let again = said(world.store().revoke(held.revoking(Some(Duration::from_secs(20)))).await);
    assert_eq!(again, Revoked::Stale { current: None });
    world.ends(held.key()).await.assert_before(told, delay);
}

pub async fn the_delay_is_what_was_left_of_the_ttl(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.pass(Duration::from_millis(100)).await;
    let asked = world.now();
    let delay = world.revoke(&held, None).await;
    let ends = world.span(asked, delay);
    ends.assert_after(held.sent, held.lease.ttl.as_duration());
    ends.assert_before(held.told, held.lease.ttl.as_duration());
}

pub async fn the_delay_is_what_was_asked_for(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let (asked, sent) = (Duration::from_secs(7), world.now());
    assert_eq!(world.revoke(&held, Some(asked)).await, asked);
    let told = world.now();
    let ends = world.ends(held.key()).await;
    ends.assert_after(sent, asked);
    ends.assert_before(told, asked);
}

pub async fn a_delayed_key_says_so(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.revoke(&held, None).await;
    let status = world.inspect(held.key()).await;
    assert_eq!((status.phase, status.holder), (Phase::Delayed, None));
    assert_eq!(status.generation, Some(held.generation()));
    assert!(status.remaining.is_some());
}

pub async fn a_delayed_key_is_busy(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let delay = world.revoke(&held, None).await;
    for who in ["bob", "ann"] {
        let busy = world.busy(world.claim(held.key(), who)).await;
        assert_eq!((busy.reason, busy.holder), (Reason::Delayed, None));
        assert_eq!(busy.generation, Some(held.generation()));
        assert!(busy.remaining.is_some_and(|left| left <= delay), "{:?}", busy.remaining);
    }
}

pub async fn a_delay_of_nothing_frees_at_once(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    assert_eq!(world.revoke(&held, Some(Duration::ZERO)).await, Duration::ZERO);
    assert_eq!(world.inspect(held.key()).await.phase, Phase::Free);
    let next = world.hold(held.key(), "bob").await;
    assert!(next.generation() > held.generation());
}

pub async fn a_delayed_key_is_granted_after_the_delay_and_not_before(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let (sent, delay) = (world.now(), world.ttl().as_duration());
    world.revoke(&held, Some(delay)).await;
    world
        .until("the delay is over", || async {
            matches!(world.acquire(world.claim(held.key(), "bob")).await, Acquired::Granted(_))
        })
        .await;
    assert_passed(world, sent, delay);
}

pub async fn a_delay_that_is_over_needs_no_sweep(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.revoke(&held, Some(world.ttl().as_duration())).await;
    world.outlive(world.ttl()).await;
    assert_eq!(world.inspect(held.key()).await.phase, Phase::Free);
    world.hold(held.key(), "bob").await;
}

pub async fn a_waiter_is_granted_after_the_delay_and_not_before(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let bob = world.queue(held.key(), "bob").await;
    let (sent, delay) = (world.now(), world.ttl().as_duration());
    world.revoke(&held, Some(delay)).await;
    let next = bob.granted(world).await;
    assert_passed(world, sent, delay);
    assert!(next.generation() > held.generation());
}

pub async fn a_claim_may_wait_for_the_end_of_a_delay(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let (sent, delay) = (world.now(), world.ttl().as_duration() * 4);
    world.revoke(&held, Some(delay)).await;
    world.queue(held.key(), "bob").await.granted(world).await;
    assert_passed(world, sent, delay);
}

pub async fn without_a_delay_the_head_of_the_queue_is_granted(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let bob = world.queue(held.key(), "bob").await;
    let mut cat = world.queue(held.key(), "cat").await;
    world.revoke(&held, Some(Duration::ZERO)).await;
    bob.granted(world).await;
    assert!(cat.is_parked());
}

pub async fn a_delayed_key_takes_no_record(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.revoke(&held, Some(Duration::from_secs(20))).await;
    let error = refused(world.store().commit(&[put(held.key(), "1")]).await);
    assert!(matches!(error, lease::Error::Refused(lease::Refusal::KeyIsLeased { .. })), "{error}");
    assert_eq!(world.inspect(held.key()).await.phase, Phase::Delayed);
}

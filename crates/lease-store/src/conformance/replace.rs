//! `instead_of`: replacing a predecessor that is proven dead.

use std::time::Duration;

use lease::{Phase, Reason};

use super::{World, said};

pub async fn exactly_the_named_generation_is_replaced(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let next = world.replace(&held, "bob").await;
    assert!(next.generation() > held.generation());
    assert!(!next.parked);
    let status = world.inspect(held.key()).await;
    assert_eq!((status.phase, status.holder), (Phase::Held, Some(world.holder("bob"))));
    world.assert_live(&next).await;
}

pub async fn another_generation_is_not_replaced(world: &World) {
    let first = world.hold(&world.key("k"), "ann").await;
    let held = world.replace(&first, "ann").await;
    for stale in [first.generation(), held.other_generation()] {
        let busy = world.busy(world.claim(held.key(), "bob").instead_of(stale)).await;
        assert_eq!(busy.reason, Reason::NotThatGeneration);
        assert_eq!(busy.generation, Some(held.generation()));
    }
    world.assert_live(&held).await;
}

pub async fn a_free_key_has_nobody_to_replace(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.give_back(&held).await;
    let claim = world.claim(held.key(), "bob").instead_of(held.generation());
    assert_eq!(world.busy(claim).await.reason, Reason::NotThatGeneration);
    assert_eq!(world.inspect(held.key()).await.phase, Phase::Free);
}

pub async fn an_expired_reign_cannot_be_replaced(world: &World) {
    let held = world.hold_briefly(&world.key("k"), "ann").await;
    world.outlive(held.lease.ttl).await;
    let claim = world.claim(held.key(), "bob").instead_of(held.generation());
    assert_eq!(world.busy(claim).await.reason, Reason::NotThatGeneration);
}

pub async fn a_revoked_reign_cannot_be_replaced(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.revoke(&held, None).await;
    let claim = world.claim(held.key(), "bob").instead_of(held.generation());
    assert_eq!(world.busy(claim).await.reason, Reason::NotThatGeneration);
    assert_eq!(world.inspect(held.key()).await.phase, Phase::Delayed);
}

pub async fn a_replacement_skips_the_queue(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let mut cat = world.queue(held.key(), "cat").await;
    let next = world.replace(&held, "bob").await;
    assert!(cat.is_parked());
    world.assert_live(&next).await;
    world.give_back(&next).await;
    assert!(cat.granted(world).await.generation() > next.generation());
}

pub async fn two_replacements_of_one_generation_have_one_winner(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let (one, two) = (world.store(), world.second());
    let claim = |who| world.claim(held.key(), who).instead_of(held.generation());
    let answers = tokio::join!(one.acquire(claim("bob")), two.acquire(claim("cat")));
    let granted = [said(answers.0), said(answers.1)]
        .iter()
        .filter(|answer| matches!(answer, lease::Acquired::Granted(_)))
        .count();
    assert_eq!(granted, 1);
}

pub async fn the_same_token_again_gets_the_replacement_again(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let claim = world.claim(held.key(), "bob").instead_of(held.generation());
    let first = world.grant(claim.clone()).await;
    world.pass(Duration::from_millis(10)).await;
    assert_eq!(world.grant(claim).await.lease, first.lease);
}

pub async fn a_replacement_does_not_wait_for_a_record_to_go(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.give_back(&held).await;
    world.put(held.key(), "a record").await;
    let claim = world.claim(held.key(), "bob").instead_of(held.generation());
    let busy = world.busy(claim.waiting(Duration::from_secs(60))).await;
    assert_eq!(busy.reason, Reason::Foreign);
    assert_eq!(world.inspect(held.key()).await.waiters, 0);
    world.write(&[lease::Op::Delete { key: held.key().clone() }]).await;
    assert_eq!(world.inspect(held.key()).await.phase, Phase::Free);
}

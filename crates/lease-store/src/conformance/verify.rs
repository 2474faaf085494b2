//! What a token is to a key.

use std::time::Duration;

use lease::{Release, Verified};

use super::{World, said};

pub async fn a_live_token_is_live(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let asked = world.now();
    let Verified::Live { generation, remaining } = world.verify(&held).await else { panic!("it holds the key") };
    assert_eq!(generation, held.generation());
    let ends = world.span(asked, remaining);
    ends.assert_after(held.sent, held.lease.ttl.as_duration());
    ends.assert_before(held.told, held.lease.ttl.as_duration());
}

pub async fn verify_never_refreshes(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.pass(Duration::from_millis(200)).await;
    world.assert_live(&held).await;
    world.ends(held.key()).await.assert_before(held.told, held.lease.ttl.as_duration());
}

pub async fn a_released_token_has_ended(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.give_back(&held).await;
    assert_eq!(world.verify(&held).await, Verified::Ended);
}

pub async fn an_expired_token_has_ended(world: &World) {
    let held = world.hold_briefly(&world.key("k"), "ann").await;
    world.outlive(held.lease.ttl).await;
    assert_eq!(world.verify(&held).await, Verified::Ended);
    world.hold(held.key(), "bob").await;
    assert_eq!(world.verify(&held).await, Verified::Ended);
}

pub async fn a_replaced_token_has_ended(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let next = world.replace(&held, "bob").await;
    assert_eq!(world.verify(&held).await, Verified::Ended);
    world.assert_live(&next).await;
}

pub async fn a_token_given_up_has_ended(world: &World) {
    let (key, token) = (world.key("k"), world.token());
    said(world.store().release(Release::new(key.clone(), token.clone())).await);
    assert_eq!(said(world.store().verify(&key, &token).await), Verified::Ended);
}

pub async fn an_unknown_token_is_wrong(world: &World) {
    let key = world.key("k");
    assert_eq!(said(world.store().verify(&key, &world.token()).await), Verified::Wrong);
    world.hold(&key, "ann").await;
    assert_eq!(said(world.store().verify(&key, &world.token()).await), Verified::Wrong);
}

pub async fn a_token_of_another_key_is_wrong(world: &World) {
    let held = world.hold(&world.key("a"), "ann").await;
    world.hold(&world.key("b"), "bob").await;
    assert_eq!(said(world.store().verify(&world.key("b"), &held.token).await), Verified::Wrong);
}

pub async fn verify_creates_nothing(world: &World) {
    let claim = world.claim(&world.key("k"), "ann");
    said(world.store().verify(&claim.key, &claim.token).await);
    assert_eq!(world.inspect(&claim.key).await.phase, lease::Phase::Free);
    world.grant(claim).await;
}

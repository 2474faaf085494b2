//! A token serves one reign.

use std::time::Duration;

use lease::{Phase, Release, Released, Wipe};

use super::{World, said};

pub async fn a_token_is_spent_by_its_release(world: &World) {
    let claim = world.claim(&world.key("k"), "ann");
    let held = world.grant(claim.clone()).await;
    world.give_back(&held).await;
    world.spent(claim.clone()).await;
    world.spent(claim.clone().waiting(Duration::from_secs(60))).await;
    assert_eq!(world.inspect(&claim.key).await.phase, Phase::Free);
}

pub async fn a_spent_token_stays_spent_while_others_reign(world: &World) {
    let claim = world.claim(&world.key("k"), "ann");
    let held = world.grant(claim.clone()).await;
    world.give_back(&held).await;
    let next = world.hold(held.key(), "bob").await;
    world.spent(claim.clone()).await;
    world.give_back(&next).await;
    world.spent(claim).await;
}

pub async fn a_spent_token_is_spent_for_other_handles_too(world: &World) {
    let claim = world.claim(&world.key("k"), "ann");
    let held = world.grant(claim.clone()).await;
    assert_eq!(said(world.second().release(held.giving(None)).await), Released::Released);
    world.spent(claim).await;
}

pub async fn a_token_is_spent_by_a_release_to_an_heir(world: &World) {
    let claim = world.claim(&world.key("k"), "ann");
    let held = world.grant(claim.clone()).await;
    said(world.store().release(held.giving(Some(world.holder("bob")))).await);
    world.spent(claim).await;
}

pub async fn a_token_is_spent_by_its_transfer(world: &World) {
    let claim = world.claim(&world.key("k"), "ann");
    let held = world.grant(claim.clone()).await;
    let heir = world.queue(held.key(), "bob").await;
    world.hand_over(&held, "bob").await;
    world.spent(claim).await;
    heir.granted(world).await;
}

pub async fn a_token_is_spent_by_its_revocation(world: &World) {
    let claim = world.claim(&world.key("k"), "ann");
    let held = world.grant(claim.clone()).await;
    world.revoke(&held, Some(Duration::ZERO)).await;
    world.spent(claim).await;
}

pub async fn a_token_is_spent_by_a_wipe(world: &World) {
    let gate = world.hold(&world.key("gate"), "op").await;
    let claim = world.claim(&world.key("t/1"), "ann");
    world.grant(claim.clone()).await;
    said(world.store().wipe(Wipe { prefix: world.under("t/"), gate: gate.proof() }).await);
    world.spent(claim).await;
}

pub async fn a_token_is_spent_by_its_successor(world: &World) {
    let claim = world.claim(&world.key("k"), "ann");
    let held = world.grant(claim.clone()).await;
    let next = world.replace(&held, "bob").await;
    world.spent(claim.clone()).await;
    world.give_back(&next).await;
    world.spent(claim).await;
}

pub async fn a_released_token_that_held_nothing_cannot_be_granted_late(world: &World) {
    let claim = world.claim(&world.key("k"), "ann");
    let release = Release::new(claim.key.clone(), claim.token.clone());
    assert_eq!(said(world.store().release(release).await), Released::NotHeld);
    // The acquire that was meant to come before the release arrives now.
    world.spent(claim.clone()).await;
    assert_eq!(world.inspect(&claim.key).await.phase, Phase::Free);
    world.hold(&claim.key, "bob").await;
}

pub async fn a_token_given_up_on_a_busy_key_cannot_be_granted_late(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let claim = world.claim(held.key(), "bob");
    let release = Release::new(claim.key.clone(), claim.token.clone());
    assert_eq!(said(world.store().release(release).await), Released::NotHeld);
    world.give_back(&held).await;
    world.spent(claim).await;
}

pub async fn a_token_given_up_stays_given_up_for_a_minute(world: &World) {
    let claim = world.claim(&world.key("k"), "ann");
    let release = Release::new(claim.key.clone(), claim.token.clone());
    said(world.store().release(release).await);
    if world.virtual_time() {
        // Elsewhere a minute is too long to wait for: there the engines' own tests look at what it is kept by.
        world.pass(Duration::from_secs(59)).await;
    }
    world.spent(claim).await;
}

pub async fn a_released_token_that_expired_cannot_come_back(world: &World) {
    let claim = world.brief_claim(&world.key("k"), "ann");
    let held = world.grant(claim.clone()).await;
    world.outlive(held.lease.ttl).await;
    assert_eq!(said(world.store().release(held.giving(None)).await), Released::NotHeld);
    world.spent(claim).await;
}

pub async fn a_token_given_up_while_it_was_parked_is_not_granted(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let claim = world.claim(held.key(), "bob");
    let _bob = world.park(claim.clone()).await;
    let release = Release::new(claim.key.clone(), claim.token.clone());
    assert_eq!(said(world.store().release(release).await), Released::NotHeld);
    world.give_back(&held).await;
    world.until_free(held.key()).await;
    assert_eq!(world.inspect(held.key()).await.generation, Some(held.generation()));
}

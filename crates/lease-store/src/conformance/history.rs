//! The last reigns of a key.

use std::time::Duration;

use lease::{End, Generation, Key, Reign, Wipe, limits};

use super::{Held, World, said};

async fn history(world: &World, key: &Key) -> Vec<Reign> {
    let reigns = said(world.store().history(key).await);
    for reign in &reigns {
        assert_eq!(reign.until.is_some(), reign.end.is_some(), "{reign:?}");
        assert!(reign.until.is_none_or(|until| reign.from <= until), "{reign:?}");
    }
    for pair in reigns.windows(2) {
        assert!(pair[0].generation < pair[1].generation, "oldest first: {reigns:?}");
        assert!(pair[0].until.is_some_and(|until| until <= pair[1].from), "one after the other: {pair:?}");
    }
    reigns
}

#[track_caller]
fn assert_reign(reign: &Reign, held: &Held, end: Option<End>) {
    assert_eq!((&reign.holder, reign.generation), (&held.lease.holder, held.generation()));
    assert_eq!(reign.end, end, "{reign:?}");
}

pub async fn a_key_that_was_never_held_has_no_history(world: &World) {
    assert_eq!(history(world, &world.key("k")).await, []);
}

pub async fn the_running_reign_is_the_last_and_has_no_end(world: &World) {
    let first = world.hold(&world.key("k"), "ann").await;
    world.give_back(&first).await;
    let second = world.hold(first.key(), "bob").await;
    let reigns = history(world, first.key()).await;
    assert_eq!(reigns.len(), 2);
    assert_reign(&reigns[0], &first, Some(End::Released));
    assert_reign(&reigns[1], &second, None);
}

pub async fn a_history_says_why_each_reign_ended(world: &World) {
    let (gate, key) = (world.hold(&world.key("gate"), "op").await, world.key("t/1"));
    let released = world.hold(&key, "ann").await;
    world.give_back(&released).await;
    let transferred = world.hold(&key, "bob").await;
    let heir = world.queue(&key, "cat").await;
    world.hand_over(&transferred, "cat").await;
    let superseded = heir.granted(world).await;
    let revoked = world.replace(&superseded, "dan").await;
    world.revoke(&revoked, Some(Duration::ZERO)).await;
    let wiped = world.hold(&key, "eve").await;
    said(world.store().wipe(Wipe { prefix: world.under("t/"), gate: gate.proof() }).await);
    let running = world.hold(&key, "fay").await;
    let expected = [
        (&released, Some(End::Released)),
        (&transferred, Some(End::Transferred)),
        (&superseded, Some(End::Superseded)),
        (&revoked, Some(End::Revoked)),
        (&wiped, Some(End::Wiped)),
        (&running, None),
    ];
    let reigns = history(world, &key).await;
    assert_eq!(reigns.len(), expected.len(), "{reigns:?}");
    for (reign, (held, end)) in reigns.iter().zip(expected) {
        assert_reign(reign, held, end);
    }
}

pub async fn an_expiry_is_in_the_history_within_the_lag(world: &World) {
    let held = world.hold_briefly(&world.key("k"), "ann").await;
    world.outlive(held.lease.ttl).await;
    world.pass(world.capabilities().expiry_lag).await;
    let reigns = history(world, held.key()).await;
    assert_eq!(reigns.len(), 1);
    assert_reign(&reigns[0], &held, Some(End::Expired));
}

pub async fn an_expired_reign_ends_before_the_next_begins(world: &World) {
    let first = world.hold_briefly(&world.key("k"), "ann").await;
    world.outlive(first.lease.ttl).await;
    let second = world.hold(first.key(), "bob").await;
    let reigns = history(world, first.key()).await;
    assert_eq!(reigns.len(), 2);
    assert_reign(&reigns[0], &first, Some(End::Expired));
    assert_reign(&reigns[1], &second, None);
}

pub async fn a_renewal_is_no_new_reign(world: &World) {
    let claim = world.claim(&world.key("k"), "ann");
    let held = world.grant(claim.clone()).await;
    world.renew(&held).await;
    world.grant(claim).await;
    let reigns = history(world, held.key()).await;
    assert_eq!(reigns.len(), 1);
    assert_reign(&reigns[0], &held, None);
}

pub async fn only_the_last_reigns_are_kept(world: &World) {
    let (key, mut all) = (world.key("k"), Vec::new());
    for round in 0..limits::REIGNS + 8 {
        let held = world.hold(&key, &format!("h{round}")).await;
        world.give_back(&held).await;
        all.push(held.generation());
    }
    assert_eq!(generations(world, &key).await, all[all.len() - limits::REIGNS..]);
    // The running one is among them.
    let running = world.hold(&key, "last").await;
    all.push(running.generation());
    assert_eq!(generations(world, &key).await, all[all.len() - limits::REIGNS..]);
}

async fn generations(world: &World, key: &Key) -> Vec<Generation> {
    history(world, key).await.iter().map(|reign| reign.generation).collect()
}

pub async fn another_handle_tells_the_same_history(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.give_back(&held).await;
    let reigns = history(world, held.key()).await;
    assert_eq!(said(world.second().history(held.key()).await), reigns);
}

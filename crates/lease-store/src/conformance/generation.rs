//! Generations rise, whatever ends a reign.

use std::time::Duration;

use lease::{Generation, Verified, Wipe};

use super::{World, said};

/// The bound that keeps a generation exact in a double.
const END: u64 = 1 << 53;

#[track_caller]
fn assert_rising(generations: &[Generation]) {
    assert!(generations.windows(2).all(|pair| pair[0] < pair[1]), "{generations:?}");
    assert!(generations.iter().all(|g| (1..END).contains(&g.get())), "{generations:?}");
}

pub async fn generations_rise_over_releases(world: &World) {
    let (key, mut seen) = (world.key("k"), Vec::new());
    for _ in 0..8 {
        let held = world.hold(&key, "ann").await;
        seen.push(held.generation());
        world.give_back(&held).await;
    }
    assert_rising(&seen);
}

pub async fn generations_rise_over_expiries(world: &World) {
    let (key, mut seen) = (world.key("k"), Vec::new());
    for _ in 0..3 {
        let held = world.hold_briefly(&key, "ann").await;
        seen.push(held.generation());
        world.outlive(held.lease.ttl).await;
    }
    assert_rising(&seen);
}

pub async fn generations_rise_over_every_other_end(world: &World) {
    let (gate, key) = (world.hold(&world.key("gate"), "op").await, world.key("t/1"));
    let mut seen = Vec::new();
    let first = world.hold(&key, "ann").await;
    seen.push(first.generation());
    let heir = world.queue(&key, "bob").await;
    world.hand_over(&first, "bob").await;
    let second = heir.granted(world).await;
    seen.push(second.generation());
    let third = world.replace(&second, "cat").await;
    seen.push(third.generation());
    world.revoke(&third, Some(Duration::ZERO)).await;
    let fourth = world.hold(&key, "dan").await;
    seen.push(fourth.generation());
    said(world.store().wipe(Wipe { prefix: world.under("t/"), gate: gate.proof() }).await);
    let fifth = world.hold(&key, "eve").await;
    seen.push(fifth.generation());
    said(world.store().release(fifth.giving(Some(world.holder("fay")))).await);
    seen.push(world.hold(&key, "fay").await.generation());
    assert_rising(&seen);
}

pub async fn generations_rise_over_all_handles(world: &World) {
    let (key, mut seen) = (world.key("k"), Vec::new());
    for round in 0..8 {
        let store = if round % 2 == 0 { world.store() } else { world.second() };
        let claim = world.claim(&key, "ann");
        let lease::Acquired::Granted(grant) = said(store.acquire(claim.clone()).await) else {
            panic!("the key is free")
        };
        seen.push(grant.lease.generation);
        said(store.release(lease::Release::new(key.clone(), claim.token)).await);
    }
    assert_rising(&seen);
}

pub async fn a_free_key_remembers_its_last_generation(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.give_back(&held).await;
    assert_eq!(world.inspect(held.key()).await.generation, Some(held.generation()));
}

pub async fn only_a_grant_to_another_token_moves_the_generation(world: &World) {
    let claim = world.claim(&world.key("k"), "ann");
    let held = world.grant(claim.clone()).await;
    world.busy(world.claim(&claim.key, "bob")).await;
    world.renew(&held).await;
    world.grant(claim).await;
    let Verified::Live { generation, .. } = world.verify(&held).await else { panic!("it is held") };
    assert_eq!(generation, held.generation());
}

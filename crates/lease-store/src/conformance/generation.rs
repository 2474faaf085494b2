//! Generations rise, whatever ends a reign.

use std::time::Duration;

use tenure_lease::{Generation, Verified, Wipe};

use super::{Harness, expect_ok};

/// The bound that keeps a generation exact in a double.
const END: u64 = 1 << 53;

#[track_caller]
fn assert_rising(generations: &[Generation]) {
    assert!(generations.windows(2).all(|pair| pair[0] < pair[1]), "{generations:?}");
    assert!(generations.iter().all(|g| (1..END).contains(&g.get())), "{generations:?}");
}

pub async fn generations_rise_over_releases(harness: &Harness) {
    let (key, mut seen) = (harness.key("k"), Vec::new());
    for _ in 0..8 {
        let held = harness.hold(&key, "ann").await;
        seen.push(held.generation());
        harness.release_held(&held).await;
    }
    assert_rising(&seen);
}

pub async fn generations_rise_over_expiries(harness: &Harness) {
    let (key, mut seen) = (harness.key("k"), Vec::new());
    for _ in 0..3 {
        let held = harness.hold_briefly(&key, "ann").await;
        seen.push(held.generation());
        harness.outlive(held.lease.ttl).await;
    }
    assert_rising(&seen);
}

pub async fn generations_rise_over_every_other_end(harness: &Harness) {
    let (gate, key) = (harness.hold(&harness.key("gate"), "op").await, harness.key("t/1"));
    let mut seen = Vec::new();
    let first = harness.hold(&key, "ann").await;
    seen.push(first.generation());
    let successor = harness.queue(&key, "bob").await;
    harness.transfer_held(&first, "bob").await;
    let second = successor.granted(harness).await;
    seen.push(second.generation());
    let third = harness.replace(&second, "cat").await;
    seen.push(third.generation());
    harness.revoke(&third, Some(Duration::ZERO)).await;
    let fourth = harness.hold(&key, "dan").await;
    seen.push(fourth.generation());
    expect_ok(harness.store().wipe(Wipe { prefix: harness.under("t/"), gate: gate.proof() }).await);
    let fifth = harness.hold(&key, "eve").await;
    seen.push(fifth.generation());
    expect_ok(harness.store().release(fifth.release(Some(harness.holder("fay")))).await);
    seen.push(harness.hold(&key, "fay").await.generation());
    assert_rising(&seen);
}

pub async fn generations_rise_over_all_handles(harness: &Harness) {
    let (key, mut seen) = (harness.key("k"), Vec::new());
    for round in 0..8 {
        let store = if round % 2 == 0 { harness.store() } else { harness.second() };
        let claim = harness.claim(&key, "ann");
        let tenure_lease::Acquired::Granted(grant) = expect_ok(store.acquire(claim.clone()).await) else {
            panic!("the key is free")
        };
        seen.push(grant.lease.generation);
        expect_ok(store.release(tenure_lease::Release::new(key.clone(), claim.token)).await);
    }
    assert_rising(&seen);
}

pub async fn a_free_key_remembers_its_last_generation(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.release_held(&held).await;
    assert_eq!(harness.inspect(held.key()).await.generation, Some(held.generation()));
}

pub async fn only_a_grant_to_another_token_moves_the_generation(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann");
    let held = harness.grant(claim.clone()).await;
    harness.busy(harness.claim(&claim.key, "bob")).await;
    harness.renew(&held).await;
    harness.grant(claim).await;
    let Verified::Live { generation, .. } = harness.verify(&held).await else { panic!("it is held") };
    assert_eq!(generation, held.generation());
}

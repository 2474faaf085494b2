//! Durable before the answer: a crash right after an answer takes nothing of it back.
//!
//! A crash loses what the engine has not made durable: on the embedded engine what is not synced, as when the power goes;
//! on a server what its process has not persisted, as when it is killed.

use std::time::Duration;

use tenure_lease::{
    Acquired, Committed, Deadline, Key, Margins, Mode, Phase, Released, Renewed, Verified, Wipe,
};
use tokio::task::JoinSet;

use super::verbs::{append, put, written};
use super::{Harness, HeldLease, expect_ok, expect_renewals};

/// Callers at once, and how many of them are answered before the crash.
const CALLERS: usize = 64;
const ANSWERED: usize = 20;

async fn hold(harness: &Harness, name: &str) -> HeldLease {
    harness.grant(harness.claim(&harness.key(name), "ann").remote()).await
}

pub async fn a_grant_is_durable_before_the_answer(harness: &Harness) {
    let held = hold(harness, "k").await;
    harness.crash().await;
    harness.assert_live(&held).await;
    let busy = harness.busy(harness.claim(held.key(), "bob")).await;
    assert_eq!(busy.generation, Some(held.generation()));
}

pub async fn every_answered_grant_of_many_callers_is_durable(harness: &Harness) {
    let mut callers = JoinSet::new();
    for n in 0..CALLERS {
        let (store, claim) =
            (harness.store(), harness.claim(&harness.key(&format!("k/{n}")), "ann").remote());
        callers.spawn(async move { (claim.clone(), store.acquire(claim).await) });
    }
    let mut answered: Vec<(Key, _)> = Vec::new();
    while let Some(Ok((claim, answer))) = harness.within("an answer", callers.join_next()).await {
        match expect_ok(answer) {
            Acquired::Granted(_) => answered.push((claim.key, claim.token)),
            Acquired::Busy(busy) => panic!("{busy:?}"),
        }
        if answered.len() == ANSWERED {
            break;
        }
    }
    callers.shutdown().await;
    harness.crash().await;
    for (key, token) in answered {
        let verified = expect_ok(harness.store().verify(&key, &token).await);
        assert!(matches!(verified, Verified::Live { .. }), "{key}: {verified:?}");
    }
}

pub async fn a_longer_ttl_is_durable_before_the_answer(harness: &Harness) {
    let mut claim = harness.claim(&harness.key("k"), "ann").remote();
    claim.ttl = expect_ok(tenure_lease::Ttl::from_millis(harness.long_ttl().as_millis() / 2));
    let (held, sent) = (harness.grant(claim).await, harness.now());
    let renewed = expect_renewals(harness.store().renew(&[held.renewal(Some(harness.long_ttl()))]).await);
    assert!(matches!(renewed[..], [Renewed::Renewed { .. }]), "{renewed:?}");
    harness.crash().await;
    let believed = Deadline::from_send(sent, harness.long_ttl(), &Margins::default());
    let ends = harness.ends(held.key()).await;
    assert!(ends.latest >= believed.tick(), "{ends:?} is before {believed:?}");
}

pub async fn a_release_is_durable_before_the_answer(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann").remote();
    let held = harness.grant(claim.clone()).await;
    harness.release_held(&held).await;
    harness.crash().await;
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
    harness.spent(claim).await;
    assert!(harness.hold(held.key(), "bob").await.generation() > held.generation());
}

pub async fn a_tombstone_is_durable_before_the_answer(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann").remote();
    let release = tenure_lease::Release::new(claim.key.clone(), claim.token.clone());
    assert_eq!(expect_ok(harness.store().release(release).await), Released::NotHeld);
    harness.crash().await;
    harness.spent(claim).await;
}

pub async fn a_transfer_is_durable_before_the_answer(harness: &Harness) {
    let held = hold(harness, "k").await;
    let bob = harness.park(harness.claim(held.key(), "bob").remote().waiting(Duration::from_secs(60))).await;
    let next = harness.transfer_held(&held, "bob").await;
    let token = bob.token().clone();
    drop(bob.granted(harness).await);
    harness.crash().await;
    assert_eq!(harness.verify(&held).await, Verified::Ended);
    let verified = expect_ok(harness.store().verify(held.key(), &token).await);
    assert!(matches!(verified, Verified::Live { generation, .. } if generation == next.generation));
}

pub async fn a_revocation_is_durable_before_the_answer(harness: &Harness) {
    let (held, sent) = (hold(harness, "k").await, harness.now());
    let delay = harness.revoke(&held, Some(Duration::from_secs(10))).await;
    harness.crash().await;
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Delayed);
    harness.ends(held.key()).await.assert_after(sent, delay);
}

pub async fn a_wipe_is_durable_before_the_answer(harness: &Harness) {
    let (gate, held) = (hold(harness, "gate").await, hold(harness, "t/1").await);
    expect_ok(harness.store().wipe(Wipe { prefix: harness.under("t/"), gate: gate.proof() }).await);
    harness.crash().await;
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
    assert_eq!(harness.verify(&held).await, Verified::Ended);
}

pub async fn a_commit_is_durable_before_the_answer(harness: &Harness) {
    let (record, log) = (harness.key("r"), harness.key("log"));
    harness.write(&[put(&record, "1"), append(&log, "entry", 10)]).await;
    let before = harness.get(&record).await;
    harness.crash().await;
    assert_eq!(harness.get(&record).await, before);
    assert_eq!(harness.log(&log).await.len(), 1);
}

pub async fn a_fenced_write_and_its_mark_are_durable_before_the_answer(harness: &Harness) {
    let first = hold(harness, "k").await;
    harness.release_held(&first).await;
    let (second, ops) = (hold(harness, "k").await, [put(&harness.key("r"), "2")]);
    written(expect_ok(harness.store().write_fenced(&second.fence(Mode::Strict), &ops).await));
    harness.crash().await;
    harness.assert_record(&harness.key("r"), Some("2")).await;
    let late = expect_ok(harness.store().write_fenced(&first.fence(Mode::Monotonic), &ops).await);
    assert_eq!(late, Committed::FencedOut { current: Some(second.generation()) });
}

//! Bounds of queues, waits, delays, watchers and wipes.

use std::time::Duration;

use futures_util::future::join_all;
use tenure_lease::{Error, Phase, Refusal, Wipe, limits};
use tokio::task::JoinSet;

use super::{Harness, expect_ok, expect_refusal};

pub async fn a_wait_beyond_the_limit_is_refused(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let wait = Duration::from_millis(limits::WAIT_MS + 1);
    expect_refusal(harness.store().acquire(harness.claim(held.key(), "bob").waiting(wait)).await);
    assert_eq!(harness.inspect(held.key()).await.waiters, 0);
}

pub async fn a_lock_delay_beyond_the_limit_is_refused(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let delay = Duration::from_millis(limits::DELAY_MS + 1);
    expect_refusal(harness.store().revoke(held.revoke(Some(delay))).await);
    harness.assert_live(&held).await;
}

pub async fn a_full_queue_refuses_claims(harness: &Harness) {
    let held = harness.grant(harness.patient_claim(&harness.key("k"), "ann")).await;
    let mut queue = JoinSet::new();
    for number in 0..limits::WAITERS {
        let claim = harness.claim(held.key(), &format!("w{number}")).waiting(Duration::from_secs(3_600));
        let store = harness.store();
        queue.spawn(async move { store.acquire(claim).await });
    }
    harness.until_parked(held.key(), limits::WAITERS as u32).await;
    let late = harness.claim(held.key(), "late").waiting(Duration::from_secs(3_600));
    let error = expect_refusal(harness.store().acquire(late).await);
    assert!(matches!(error, Error::Refused(Refusal::TooMany { .. })), "{error}");
    harness.assert_live(&held).await;
    queue.shutdown().await;
    harness.until_parked(held.key(), 0).await;
}

pub async fn watchers_are_bounded(harness: &Harness) {
    let mut watchers = Vec::new();
    let error = loop {
        match harness.store().watch(&harness.prefix(), None).await {
            Ok(watch) => watchers.push(watch),
            Err(error) => break error,
        }
        assert!(watchers.len() <= limits::WATCHERS, "{} watchers", watchers.len());
    };
    assert!(matches!(error, Error::Refused(Refusal::TooMany { .. })), "{error}");
    // A watcher that is gone makes room.
    watchers.pop();
    harness
        .until("a watcher has room", || async {
            harness.store().watch(&harness.prefix(), None).await.is_ok()
        })
        .await;
}

pub async fn a_wipe_beyond_the_limit_is_refused(harness: &Harness) {
    let hold = async |name: String| harness.grant(harness.patient_claim(&harness.key(&name), "ann")).await;
    let gate = hold("gate".into()).await;
    for thousand in 0..limits::WIPE / 1_000 {
        join_all((0..1_000).map(|number| hold(format!("t/{thousand}/{number}")))).await;
    }
    let last = hold("t/last".into()).await;
    let wipe = Wipe { prefix: harness.under("t/"), gate: gate.proof() };
    let error = expect_refusal(harness.store().wipe(wipe.clone()).await);
    assert!(matches!(error, Error::Refused(Refusal::TooMany { .. })), "{error}");
    harness.assert_live(&last).await;
    harness.release_held(&last).await;
    expect_ok(harness.store().wipe(wipe).await);
    assert_eq!(harness.inspect(&harness.key("t/0/0")).await.phase, Phase::Free);
}

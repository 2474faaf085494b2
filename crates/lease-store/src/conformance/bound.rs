//! What may stand in line, and how long.

use std::time::Duration;

use futures_util::future::join_all;
use lease::{Error, Phase, Refusal, Wipe, limits};
use tokio::task::JoinSet;

use super::{World, refused, said};

pub async fn a_wait_beyond_the_limit_is_refused(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let wait = Duration::from_millis(limits::WAIT_MS + 1);
    refused(world.store().acquire(world.claim(held.key(), "bob").waiting(wait)).await);
    assert_eq!(world.inspect(held.key()).await.waiters, 0);
}

pub async fn a_lock_delay_beyond_the_limit_is_refused(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let delay = Duration::from_millis(limits::DELAY_MS + 1);
    refused(world.store().revoke(held.revoking(Some(delay))).await);
    world.assert_live(&held).await;
}

pub async fn a_full_queue_takes_nobody(world: &World) {
    let held = world.grant(world.patient_claim(&world.key("k"), "ann")).await;
    let mut queue = JoinSet::new();
    for number in 0..limits::WAITERS {
        let claim = world.claim(held.key(), &format!("w{number}")).waiting(Duration::from_secs(3_600));
        let store = world.store();
        queue.spawn(async move { store.acquire(claim).await });
    }
    world.until_parked(held.key(), limits::WAITERS as u32).await;
    let late = world.claim(held.key(), "late").waiting(Duration::from_secs(3_600));
    let error = refused(world.store().acquire(late).await);
    assert!(matches!(error, Error::Refused(Refusal::TooMany { .. })), "{error}");
    world.assert_live(&held).await;
    queue.shutdown().await;
    world.until_parked(held.key(), 0).await;
}

pub async fn watchers_are_bounded(world: &World) {
    let mut watchers = Vec::new();
    let error = loop {
        match world.store().watch(&world.prefix(), None).await {
            Ok(watch) => watchers.push(watch),
            Err(error) => break error,
        }
        assert!(watchers.len() <= limits::WATCHERS, "{} watchers", watchers.len());
    };
    assert!(matches!(error, Error::Refused(Refusal::TooMany { .. })), "{error}");
    // A watcher that is gone makes room.
    watchers.pop();
    world
        .until("a watcher has room", || async { world.store().watch(&world.prefix(), None).await.is_ok() })
        .await;
}

pub async fn a_wipe_beyond_the_limit_is_refused(world: &World) {
    let hold = async |name: String| world.grant(world.patient_claim(&world.key(&name), "ann")).await;
    let gate = hold("gate".into()).await;
    for thousand in 0..limits::WIPE / 1_000 {
        join_all((0..1_000).map(|number| hold(format!("t/{thousand}/{number}")))).await;
    }
    let last = hold("t/last".into()).await;
    let wipe = Wipe { prefix: world.under("t/"), gate: gate.proof() };
    let error = refused(world.store().wipe(wipe.clone()).await);
    assert!(matches!(error, Error::Refused(Refusal::TooMany { .. })), "{error}");
    world.assert_live(&last).await;
    world.give_back(&last).await;
    said(world.store().wipe(wipe).await);
    assert_eq!(world.inspect(&world.key("t/0/0")).await.phase, Phase::Free);
}

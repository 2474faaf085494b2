//! What may stand in line, and how long.

use std::time::Duration;

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
    if !world.virtual_time() {
        return; // A thousand parked claims are cheap in process only.
    }
    let held = world.hold(&world.key("k"), "ann").await;
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
    if !world.virtual_time() {
        return; // A thousand watchers are cheap in process only.
    }
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
    if !world.virtual_time() {
        return; // Ten thousand leases are cheap in process only.
    }
    let gate = world.hold(&world.key("gate"), "op").await;
    for number in 0..limits::WIPE {
        world.hold(&world.key(&format!("t/{number}")), "ann").await;
    }
    let last = world.hold(&world.key("t/last"), "ann").await;
    let wipe = Wipe { prefix: world.under("t/"), gate: gate.proof() };
    let error = refused(world.store().wipe(wipe.clone()).await);
    assert!(matches!(error, Error::Refused(Refusal::TooMany { .. })), "{error}");
    world.assert_live(&last).await;
    world.give_back(&last).await;
    said(world.store().wipe(wipe).await);
    assert_eq!(world.inspect(&world.key("t/0")).await.phase, Phase::Free);
}

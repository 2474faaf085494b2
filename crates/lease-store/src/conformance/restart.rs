//! What comes back after a restart of the store.

use std::time::Duration;

use lease::{Committed, Deadline, End, Loss, Margins, Mode, Phase, Query, Renewed, Watched};

use super::ask::{append, put, written};
use super::{Held, World, said};

async fn hold_remotely(world: &World, name: &str) -> Held {
    world.grant(world.claim(&world.key(name), "ann").remote()).await
}

pub async fn local_leases_end_with_their_process(world: &World) {
    if world.capabilities().loss != Loss::Nothing {
        return; // Only a store that lives in the holders' process ends their leases with it.
    }
    let held = world.hold(&world.key("k"), "ann").await;
    world.restart().await;
    assert_eq!(world.inspect(held.key()).await.phase, Phase::Free);
    assert_eq!(world.renew(&held).await, Renewed::Lost(End::HolderDied));
    let reigns = said(world.store().history(held.key()).await);
    assert_eq!(reigns.last().and_then(|reign| reign.end), Some(End::HolderDied));
    let next = world.hold(held.key(), "bob").await;
    assert!(next.generation() > held.generation());
}

pub async fn remote_leases_come_back(world: &World) {
    let held = hold_remotely(world, "k").await;
    world.restart().await;
    world.assert_live(&held).await;
    let status = world.inspect(held.key()).await;
    assert_eq!((status.phase, status.holder), (Phase::Held, Some(world.holder("ann"))));
    world.busy(world.claim(held.key(), "bob")).await;
    assert!(matches!(world.renew(&held).await, Renewed::Renewed { .. }));
    world.give_back(&held).await;
}

pub async fn remote_leases_come_back_with_the_time_their_holders_believe_in(world: &World) {
    let held = hold_remotely(world, "k").await;
    world.pass(Duration::from_millis(1_500)).await;
    let sent = world.now();
    assert!(matches!(world.renew(&held).await, Renewed::Renewed { .. }));
    world.restart().await;
    let believed = Deadline::from_send(sent, held.lease.ttl, &Margins::default());
    let ends = world.ends(held.key()).await;
    assert!(ends.latest >= believed.tick(), "{ends:?} is before {believed:?}");
}

pub async fn a_lengthened_lease_comes_back_with_its_longer_ttl(world: &World) {
    let mut claim = world.claim(&world.key("k"), "ann").remote();
    claim.ttl = said(lease::Ttl::from_millis(world.long_ttl().as_millis() / 2));
    let held = world.grant(claim).await;
    let sent = world.now();
    said(world.store().renew(&[held.renewal(Some(world.long_ttl()))]).await);
    world.restart().await;
    let believed = Deadline::from_send(sent, world.long_ttl(), &Margins::default());
    let ends = world.ends(held.key()).await;
    assert!(ends.latest >= believed.tick(), "{ends:?} is before {believed:?}");
}

pub async fn generations_rise_over_restarts(world: &World) {
    let key = world.key("k");
    let mut last = None;
    for _ in 0..3 {
        let held = world.hold(&key, "ann").await;
        assert!(last.is_none_or(|last| last < held.generation()), "{last:?} {:?}", held.generation());
        last = Some(held.generation());
        world.give_back(&held).await;
        world.restart().await;
        assert_eq!(world.inspect(&key).await.generation, last);
    }
}

pub async fn spent_tokens_stay_spent(world: &World) {
    let claim = world.claim(&world.key("k"), "ann").remote();
    let held = world.grant(claim.clone()).await;
    world.give_back(&held).await;
    world.restart().await;
    world.spent(claim).await;
}

pub async fn a_lock_delay_survives(world: &World) {
    let held = hold_remotely(world, "k").await;
    let sent = world.now();
    let delay = world.revoke(&held, Some(Duration::from_secs(10))).await;
    world.restart().await;
    assert_eq!(world.inspect(held.key()).await.phase, Phase::Delayed);
    assert_eq!(world.busy(world.claim(held.key(), "bob")).await.reason, lease::Reason::Delayed);
    world.ends(held.key()).await.assert_after(sent, delay);
}

pub async fn a_history_survives(world: &World) {
    let first = hold_remotely(world, "k").await;
    world.give_back(&first).await;
    let second = hold_remotely(world, "k").await;
    let before = said(world.store().history(first.key()).await);
    world.restart().await;
    assert_eq!(said(world.store().history(first.key()).await), before);
    world.assert_live(&second).await;
}

pub async fn records_and_logs_survive(world: &World) {
    let (record, log) = (world.key("r"), world.key("log"));
    world.write(&[put(&record, "kept"), append(&log, "entry", 10)]).await;
    let before = world.get(&record).await;
    world.restart().await;
    assert_eq!(world.get(&record).await, before);
    world.write(&[append(&log, "next", 10)]).await;
    let entries: Vec<_> = world.log(&log).await.iter().map(|entry| entry.seq).collect();
    assert_eq!(entries, [1, 2]);
}

pub async fn the_mark_of_a_fence_survives(world: &World) {
    let first = world.hold(&world.key("k"), "ann").await;
    world.give_back(&first).await;
    let second = world.hold(first.key(), "bob").await;
    let ops = [put(&world.key("r"), "1")];
    written(said(world.store().write_fenced(&second.fence(Mode::Monotonic), &ops).await));
    world.restart().await;
    let late = said(world.store().write_fenced(&first.fence(Mode::Monotonic), &ops).await);
    assert_eq!(late, Committed::FencedOut { current: Some(second.generation()) });
}

pub async fn a_wiped_lease_stays_wiped(world: &World) {
    let gate = world.hold(&world.key("gate"), "op").await;
    let held = hold_remotely(world, "t/1").await;
    said(world.store().wipe(lease::Wipe { prefix: world.under("t/"), gate: gate.proof() }).await);
    world.restart().await;
    assert_eq!(world.inspect(held.key()).await.phase, Phase::Free);
    assert_eq!(world.renew(&held).await, Renewed::Lost(End::Wiped));
}

pub async fn revisions_rise_over_restarts(world: &World) {
    let key = world.key("r");
    let before = world.put(&key, "1").await;
    world.restart().await;
    assert!(said(world.store().list(&Query::new(world.prefix())).await).revision >= before);
    assert!(world.put(&key, "2").await > before);
}

pub async fn a_watch_resumed_over_a_restart_misses_nothing_silently(world: &World) {
    let first = world.put(&world.key("a"), "1").await;
    let second = world.put(&world.key("b"), "1").await;
    world.restart().await;
    let mut tail = world.watch(&world.prefix(), Some(first)).await;
    match tail.watched(world).await {
        Watched::Lagged => {}
        Watched::Event(event) => assert_eq!((event.key, event.revision), (world.key("b"), second)),
    }
}

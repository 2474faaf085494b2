//! What comes back after a restart of the store.

use std::time::Duration;

use tenure_lease::{Committed, Deadline, End, Margins, Mode, Phase, Query, Renewed, Watched};

use super::record::put_for;
use super::verbs::{append, put, written};
use super::{Harness, HeldLease, expect_ok, expect_renewals};

async fn hold_remotely(harness: &Harness, name: &str) -> HeldLease {
    harness.grant(harness.claim(&harness.key(name), "ann").remote()).await
}

pub async fn local_leases_end_with_their_process(harness: &Harness) {
    if !harness.capabilities().dies_with_process {
        return;
    }
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.restart().await;
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
    assert_eq!(harness.renew(&held).await, Renewed::Lost(End::HolderDied));
    let reigns = expect_ok(harness.store().history(held.key()).await);
    assert_eq!(reigns.last().and_then(|reign| reign.end), Some(End::HolderDied));
    let next = harness.hold(held.key(), "bob").await;
    assert!(next.generation() > held.generation());
}

pub async fn remote_leases_come_back(harness: &Harness) {
    let held = hold_remotely(harness, "k").await;
    harness.restart().await;
    harness.assert_live(&held).await;
    let status = harness.inspect(held.key()).await;
    assert_eq!((status.phase, status.holder), (Phase::Held, Some(harness.holder("ann"))));
    harness.busy(harness.claim(held.key(), "bob")).await;
    assert!(matches!(harness.renew(&held).await, Renewed::Renewed { .. }));
    harness.release_held(&held).await;
}

pub async fn remote_leases_come_back_with_the_time_their_holders_rely_on(harness: &Harness) {
    let held = hold_remotely(harness, "k").await;
    harness.pass(Duration::from_millis(1_500)).await;
    let sent = harness.now();
    assert!(matches!(harness.renew(&held).await, Renewed::Renewed { .. }));
    harness.restart().await;
    let believed = Deadline::from_send(sent, held.lease.ttl, &Margins::default());
    let ends = harness.ends(held.key()).await;
    assert!(ends.latest >= believed.tick(), "{ends:?} is before {believed:?}");
}

pub async fn a_lengthened_lease_comes_back_with_its_longer_ttl(harness: &Harness) {
    let mut claim = harness.claim(&harness.key("k"), "ann").remote();
    claim.ttl = expect_ok(tenure_lease::Ttl::from_millis(harness.long_ttl().as_millis() / 2));
    let held = harness.grant(claim).await;
    let sent = harness.now();
    expect_renewals(harness.store().renew(&[held.renewal(Some(harness.long_ttl()))]).await);
    harness.restart().await;
    let believed = Deadline::from_send(sent, harness.long_ttl(), &Margins::default());
    let ends = harness.ends(held.key()).await;
    assert!(ends.latest >= believed.tick(), "{ends:?} is before {believed:?}");
}

pub async fn generations_rise_over_restarts(harness: &Harness) {
    let key = harness.key("k");
    let mut last = None;
    for _ in 0..3 {
        let held = harness.hold(&key, "ann").await;
        assert!(last.is_none_or(|last| last < held.generation()), "{last:?} {:?}", held.generation());
        last = Some(held.generation());
        harness.release_held(&held).await;
        harness.restart().await;
        assert_eq!(harness.inspect(&key).await.generation, last);
    }
}

pub async fn the_floor_is_raised_once_per_incarnation(harness: &Harness) {
    // A key that was never held begins right above the floor.
    let floor = async |name: &str| {
        let held = harness.hold(&harness.key(name), "ann").await;
        harness.release_held(&held).await;
        held.generation()
    };
    let mut before = None;
    for life in 0..3 {
        let first = floor(&format!("{life}/a")).await;
        assert_eq!(floor(&format!("{life}/b")).await, first, "within one life it stays");
        assert!(before < Some(first), "{before:?} before the restart, {first:?} after it");
        before = Some(first);
        harness.restart().await;
    }
}

pub async fn spent_tokens_stay_spent(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann").remote();
    let held = harness.grant(claim.clone()).await;
    harness.release_held(&held).await;
    harness.restart().await;
    harness.spent(claim).await;
}

pub async fn a_lock_delay_survives(harness: &Harness) {
    let held = hold_remotely(harness, "k").await;
    let sent = harness.now();
    let delay = harness.revoke(&held, Some(Duration::from_secs(10))).await;
    harness.restart().await;
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Delayed);
    assert_eq!(
        harness.busy(harness.claim(held.key(), "bob")).await.reason,
        tenure_lease::BusyReason::Delayed
    );
    harness.ends(held.key()).await.assert_after(sent, delay);
}

pub async fn a_history_survives(harness: &Harness) {
    let first = hold_remotely(harness, "k").await;
    harness.release_held(&first).await;
    let second = hold_remotely(harness, "k").await;
    let before = expect_ok(harness.store().history(first.key()).await);
    harness.restart().await;
    assert_eq!(expect_ok(harness.store().history(first.key()).await), before);
    harness.assert_live(&second).await;
}

pub async fn records_and_logs_survive(harness: &Harness) {
    let (record, log) = (harness.key("r"), harness.key("log"));
    harness.write(&[put(&record, "kept"), append(&log, "entry", 10)]).await;
    let before = harness.get(&record).await;
    harness.restart().await;
    assert_eq!(harness.get(&record).await, before);
    harness.write(&[append(&log, "next", 10)]).await;
    let entries: Vec<_> = harness.log(&log).await.iter().map(|entry| entry.seq).collect();
    assert_eq!(entries, [1, 2]);
}

pub async fn a_record_with_a_ttl_survives_and_expires(harness: &Harness) {
    let (brief, long, sent) = (harness.key("brief"), harness.key("long"), harness.now());
    harness.write(&[put_for(&brief, "1", harness.ttl()), put_for(&long, "1", harness.long_ttl())]).await;
    harness.restart().await;
    harness.assert_record(&long, Some("1")).await;
    // Gone at its time, however long the store was away, and not before.
    harness.until("the brief record expires", || async { harness.get(&brief).await.is_none() }).await;
    assert!(harness.now().since(sent) + super::time::ROUNDING >= harness.ttl().as_duration());
    harness.assert_record(&long, Some("1")).await;
}

pub async fn the_mark_of_a_fence_survives(harness: &Harness) {
    let first = harness.hold(&harness.key("k"), "ann").await;
    harness.release_held(&first).await;
    let second = harness.hold(first.key(), "bob").await;
    let ops = [put(&harness.key("r"), "1")];
    written(expect_ok(harness.store().write_fenced(&second.fence(Mode::Monotonic), &ops).await));
    harness.restart().await;
    let late = expect_ok(harness.store().write_fenced(&first.fence(Mode::Monotonic), &ops).await);
    assert_eq!(late, Committed::FencedOut { current: Some(second.generation()) });
}

pub async fn a_wiped_lease_stays_wiped(harness: &Harness) {
    let gate = harness.hold(&harness.key("gate"), "op").await;
    let held = hold_remotely(harness, "t/1").await;
    expect_ok(
        harness.store().wipe(tenure_lease::Wipe { prefix: harness.under("t/"), gate: gate.proof() }).await,
    );
    harness.restart().await;
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
    assert_eq!(harness.renew(&held).await, Renewed::Lost(End::Wiped));
}

pub async fn revisions_rise_over_restarts(harness: &Harness) {
    let key = harness.key("r");
    let before = harness.put(&key, "1").await;
    harness.restart().await;
    assert!(expect_ok(harness.store().list(&Query::new(harness.prefix())).await).revision >= before);
    assert!(harness.put(&key, "2").await > before);
}

pub async fn a_watch_resumed_over_a_restart_misses_nothing_silently(harness: &Harness) {
    let first = harness.put(&harness.key("a"), "1").await;
    let second = harness.put(&harness.key("b"), "1").await;
    harness.restart().await;
    let mut tail = harness.watch(&harness.prefix(), Some(first)).await;
    match tail.watched(harness).await {
        Watched::Lagged => {}
        Watched::Event(event) => assert_eq!((event.key, event.revision), (harness.key("b"), second)),
    }
}

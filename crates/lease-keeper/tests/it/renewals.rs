//! One task renews all.

use std::collections::BTreeSet;

use lease::{Clock, Tick, Ttl};
use lease_keeper::{State, Terms};

use crate::bench::{Bench, TTL, key, ms, terms};
use crate::faults::{ALWAYS, Kind};

#[tokio::test(start_paused = true)]
async fn a_thousand_guards_are_renewed_in_few_calls() {
    let bench = Bench::new();
    let mut guards = Vec::new();
    for i in 0..1_000 {
        guards.push(bench.take(&format!("k/{i}"), terms()).await);
    }
    bench.pass(TTL * 10).await;
    assert!(guards.iter().all(|guard| guard.state() == State::Held));
    let calls = bench.store.calls("renew");
    let renewals: usize = calls.iter().map(|call| call.keys.len()).sum();
    assert!(renewals >= 30_000, "{renewals} renewals in 30 rounds");
    assert!(calls.len() <= 200, "{} calls in 30 rounds", calls.len());
    assert!(calls.iter().all(|call| call.keys.len() <= lease::limits::BATCH));
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_never_longer_than_the_store_allows_and_all_are_renewed() {
    let bench = Bench::new();
    let mut guards = Vec::new();
    for i in 0..2_500 {
        guards.push(bench.take(&format!("k/{i}"), terms()).await);
    }
    bench.pass(5_100).await;
    let calls = bench.store.calls("renew");
    assert!(calls.iter().all(|call| call.keys.len() <= lease::limits::BATCH));
    let renewed: BTreeSet<_> = calls.iter().flat_map(|call| call.keys.clone()).collect();
    assert_eq!(renewed.len(), 2_500);
}

#[tokio::test(start_paused = true)]
async fn the_first_renewal_leaves_up_to_a_tenth_sooner_and_then_one_leaves_every_third_of_the_ttl() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let start = bench.clock.now();
    bench.pass(TTL * 20).await;
    let calls = bench.store.calls("renew");
    assert!(calls.len() <= 60, "{} calls in 60 intervals", calls.len());
    let first = calls[0].at.since(start);
    assert!(first >= ms(4_490) && first <= ms(5_010), "{first:?}");
    for pair in calls.windows(2) {
        let gap = pair[1].at.since(pair[0].at);
        assert!(gap >= ms(5_000) && gap <= ms(5_010), "{gap:?}");
    }
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn holders_that_begin_together_or_come_back_together_do_not_stay_in_step() {
    let bench = Bench::new();
    let keepers: Vec<_> = (0..20).map(|i| bench.other(&format!("h{i}"))).collect();
    let mut guards = Vec::new();
    for (i, keeper) in keepers.iter().enumerate() {
        guards.push(keeper.try_acquire(key(&format!("k/{i}")), terms()).await.unwrap());
    }
    let times = |from: usize| -> BTreeSet<_> {
        bench.store.calls("renew")[from..]
            .iter()
            .map(|call| call.at.since(Tick::default()).as_millis())
            .collect()
    };
    bench.pass(5_010).await;
    assert!(times(0).len() > 10, "first renewals leave at different times");
    // All fail, are tried again, and succeed.
    bench.store.faults.inject("renew", Kind::Refused, 20);
    bench.pass(5_500).await;
    let from = bench.store.calls("renew").len();
    bench.pass(5_010).await;
    assert!(times(from).len() > 10, "and so do those after a failure");
    assert!(guards.iter().all(|guard| guard.state() == State::Held));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_does_not_hold_up_the_others() {
    let bench = Bench::new();
    let slow = bench.take("slow", terms()).await;
    bench.pass(1_000).await;
    let quick = bench.take("quick", Terms::new(Ttl::from_millis(3_000).unwrap())).await;
    bench.store.faults.inject_for("renew", "slow", Kind::Hang, ALWAYS);
    let mut states = slow.states();
    for _ in 0..120 {
        bench.pass(100).await;
        assert_eq!(quick.state(), State::Held);
    }
    assert!(states.has_changed().unwrap());
    assert_eq!(*states.borrow_and_update(), State::Jeopardy);
    states.changed().await.unwrap();
    assert_eq!(*states.borrow(), State::Suspended, "transitions are not held up either");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_is_given_up_after_a_sixth_of_the_ttl_and_tried_again() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    bench.store.faults.inject("renew", Kind::Hang, 1);
    bench.pass(5_000 + 2_500 + 400).await;
    let calls = bench.store.calls("renew");
    assert_eq!(calls.len(), 2);
    let gap = calls[1].at.since(calls[0].at);
    assert!(gap >= ms(2_500 + 250) && gap <= ms(2_500 + 310), "{gap:?}");
    assert_eq!(guard.state(), State::Held);
}

#[tokio::test(start_paused = true)]
async fn retries_back_off_and_never_stop_before_the_grace_is_over() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    bench.store.faults.inject("renew", Kind::Refused, ALWAYS);
    guard.lost().await;
    let calls = bench.store.calls("renew");
    let gaps: Vec<_> = calls.windows(2).map(|pair| pair[1].at.since(pair[0].at).as_millis()).collect();
    assert!(gaps[0] >= 270 && gaps[0] <= 305, "{gaps:?}");
    assert!(gaps.iter().all(|gap| *gap <= 1_505), "{gaps:?}");
    assert!(calls.len() > 12, "{}", calls.len());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_is_not_renewed_any_more() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    drop(guard);
    bench.pass(TTL * 2).await;
    assert!(bench.store.calls("renew").is_empty());
    assert_eq!(bench.keeper.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn guards_outlive_the_keeper_handle_that_made_them() {
    let bench = Bench::new();
    let other = bench.other("b");
    let guard = other.try_acquire(key("k"), terms()).await.unwrap();
    drop(other);
    bench.pass(TTL * 3).await;
    assert_eq!(guard.state(), State::Held);
}

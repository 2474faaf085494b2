//! One task renews all.

use std::collections::BTreeSet;

use tenure_keeper::{GuardState, Terms};
use tenure_lease::{Clock, Tick, Ttl};

use crate::faults::{ALWAYS, Kind};
use crate::fixture::{Fixture, TTL, build, key, ms, terms};

#[tokio::test(start_paused = true)]
async fn a_thousand_guards_are_renewed_in_few_calls() {
    let fixture = Fixture::new();
    let mut guards = Vec::new();
    for i in 0..1_000 {
        guards.push(fixture.take(&format!("k/{i}"), terms()).await);
    }
    fixture.pass(TTL * 10).await;
    assert!(guards.iter().all(|guard| guard.state() == GuardState::Held));
    let calls = fixture.store.calls("renew");
    let renewals: usize = calls.iter().map(|call| call.keys.len()).sum();
    assert!(renewals >= 30_000, "{renewals} renewals in 30 rounds");
    assert!(calls.len() <= 200, "{} calls in 30 rounds", calls.len());
    assert!(calls.iter().all(|call| call.keys.len() <= tenure_lease::limits::BATCH));
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_never_longer_than_the_store_allows_and_all_are_renewed() {
    let fixture = Fixture::new();
    let mut guards = Vec::new();
    for i in 0..2_500 {
        guards.push(fixture.take(&format!("k/{i}"), terms()).await);
    }
    fixture.pass(5_100).await;
    let calls = fixture.store.calls("renew");
    assert!(calls.iter().all(|call| call.keys.len() <= tenure_lease::limits::BATCH));
    let renewed: BTreeSet<_> = calls.iter().flat_map(|call| call.keys.clone()).collect();
    assert_eq!(renewed.len(), 2_500);
}

#[tokio::test(start_paused = true)]
async fn the_first_renewal_is_sent_up_to_a_tenth_sooner_and_then_one_every_third_of_the_ttl() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let start = fixture.clock.now();
    fixture.pass(TTL * 20).await;
    let calls = fixture.store.calls("renew");
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
async fn holders_that_start_or_recover_together_do_not_stay_in_step() {
    let fixture = Fixture::new();
    let keepers: Vec<_> = (0..20).map(|i| fixture.other(&format!("h{i}"))).collect();
    let mut guards = Vec::new();
    for (i, keeper) in keepers.iter().enumerate() {
        guards.push(keeper.try_acquire(key(&format!("k/{i}")), terms()).await.unwrap());
    }
    let times = |from: usize| -> BTreeSet<_> {
        fixture.store.calls("renew")[from..]
            .iter()
            .map(|call| call.at.since(Tick::default()).as_millis())
            .collect()
    };
    fixture.pass(5_010).await;
    assert!(times(0).len() > 10, "first renewals leave at different times");
    // All fail, are tried again, and succeed.
    fixture.store.faults.inject("renew", Kind::Refused, 20);
    fixture.pass(5_500).await;
    let from = fixture.store.calls("renew").len();
    fixture.pass(5_010).await;
    assert!(times(from).len() > 10, "and so do those after a failure");
    assert!(guards.iter().all(|guard| guard.state() == GuardState::Held));
}

#[tokio::test(start_paused = true)]
async fn renewals_of_one_call_fail_one_by_one() {
    let fixture = Fixture::new();
    let early = ms(2_500);
    let keeper = build(&fixture.store, "b").window(early).build();
    let mut guards = Vec::new();
    for name in ["a", "b", "c"] {
        guards.push(keeper.try_acquire(key(name), terms().renew_early(early)).await.unwrap());
    }
    fixture.store.faults.inject_for("renew item", "b", Kind::Refused, 1);
    let mut states: Vec<_> = guards.iter().map(|guard| guard.states()).collect();
    states[1].changed().await.unwrap();
    assert_eq!(fixture.store.calls("renew")[0].keys.len(), 3, "they share a call");
    let now: Vec<_> = guards.iter().map(|guard| guard.state()).collect();
    assert_eq!(now, [GuardState::Held, GuardState::Jeopardy, GuardState::Held]);
    assert!(guards[1].deadline() < guards[0].deadline(), "only the others were extended");
    states[1].changed().await.unwrap();
    assert_eq!(guards[1].state(), GuardState::Held);
    assert_eq!(fixture.store.calls("renew")[1].keys, ["b"], "only that one is tried again");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_hangs_does_not_delay_others() {
    let fixture = Fixture::new();
    let slow = fixture.take("slow", terms()).await;
    fixture.pass(1_000).await;
    let quick = fixture.take("quick", Terms::new(Ttl::from_millis(3_000).unwrap())).await;
    fixture.store.faults.inject_for("renew", "slow", Kind::Hang, ALWAYS);
    let mut states = slow.states();
    for _ in 0..120 {
        fixture.pass(100).await;
        assert_eq!(quick.state(), GuardState::Held);
    }
    assert!(states.has_changed().unwrap());
    assert_eq!(*states.borrow_and_update(), GuardState::Jeopardy);
    states.changed().await.unwrap();
    assert_eq!(*states.borrow(), GuardState::Suspended, "transitions are not held up either");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_times_out_after_a_sixth_of_the_ttl_and_is_retried() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    fixture.store.faults.inject("renew", Kind::Hang, 1);
    fixture.pass(5_000 + 2_500 + 400).await;
    let calls = fixture.store.calls("renew");
    assert_eq!(calls.len(), 2);
    let gap = calls[1].at.since(calls[0].at);
    assert!(gap >= ms(2_500 + 250) && gap <= ms(2_500 + 310), "{gap:?}");
    assert_eq!(guard.state(), GuardState::Held);
}

#[tokio::test(start_paused = true)]
async fn retries_back_off_and_never_stop_before_the_grace_is_over() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    fixture.store.faults.inject("renew", Kind::Refused, ALWAYS);
    guard.lost().await;
    let calls = fixture.store.calls("renew");
    let gaps: Vec<_> = calls.windows(2).map(|pair| pair[1].at.since(pair[0].at).as_millis()).collect();
    assert!(gaps[0] >= 270 && gaps[0] <= 305, "{gaps:?}");
    assert!(gaps.iter().all(|gap| *gap <= 1_505), "{gaps:?}");
    assert!(calls.len() > 12, "{}", calls.len());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_is_not_renewed_any_more() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    drop(guard);
    fixture.pass(TTL * 2).await;
    assert!(fixture.store.calls("renew").is_empty());
    assert_eq!(fixture.keeper.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn guards_outlive_the_keeper_handle_that_made_them() {
    let fixture = Fixture::new();
    let other = fixture.other("b");
    let guard = other.try_acquire(key("k"), terms()).await.unwrap();
    drop(other);
    fixture.pass(TTL * 3).await;
    assert_eq!(guard.state(), GuardState::Held);
}

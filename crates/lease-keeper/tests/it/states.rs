//! Held, Jeopardy, Suspended, Lost.

use std::time::Duration;

use lease::{Clock, End};
use lease_keeper::{Liveness, Lost, NotSafe, Policy, State};

use crate::bench::{Bench, DEADLINE, TTL, key, ms, terms};
use crate::faults::{ALWAYS, Kind};

#[tokio::test(start_paused = true)]
async fn a_healthy_guard_stays_held() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    for _ in 0..100 {
        bench.pass(1_000).await;
        assert_eq!(guard.state(), State::Held);
    }
    assert!(bench.store.holder("k").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_failed_renewal_is_jeopardy_and_the_next_success_ends_it() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    bench.store.faults.inject("renew", Kind::Refused, 2);
    let mut states = guard.states();
    states.changed().await.unwrap();
    assert_eq!(*states.borrow_and_update(), State::Jeopardy);
    // Still exclusive.
    guard.permit(ms(1_000)).unwrap();
    states.changed().await.unwrap();
    assert_eq!(*states.borrow(), State::Held);
    assert_eq!(bench.store.calls("renew").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_never_extends_even_if_the_store_did_it() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let deadline = guard.deadline();
    bench.store.faults.inject("renew", Kind::CutReply, ALWAYS);
    bench.pass(DEADLINE - 100).await;
    assert_eq!(guard.deadline(), deadline);
    assert_eq!(guard.state(), State::Jeopardy);
    bench.pass(200).await;
    assert_eq!(guard.state(), State::Suspended);
    // Though the store went on renewing.
    assert!(bench.store.holder("k").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_suspended_guard_is_held_again_when_the_store_confirms_its_generation() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let generation = guard.generation();
    bench.store.faults.inject("renew", Kind::CutReply, ALWAYS);
    bench.pass(TTL).await;
    assert_eq!(guard.permit(ms(0)).unwrap_err(), NotSafe::Suspended);
    bench.store.faults.heal();
    bench.pass(2_000).await;
    assert_eq!(guard.state(), State::Held);
    assert_eq!(guard.permit(ms(0)).unwrap().generation(), generation);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_guard_is_lost_when_the_store_says_so() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    bench.store.faults.inject("renew", Kind::Refused, ALWAYS);
    bench.pass(TTL + 100).await;
    bench.store.faults.heal();
    // The store never heard a renewal, so there the reign expired.
    assert_eq!(guard.lost().await, Lost::Ended(End::Expired));
    // A copy of the claim that the network doubled may come now and be granted: the token is given up.
    assert!(bench.store.calls("release").is_empty());
    drop(guard);
    bench.keeper.settled().await;
    assert_eq!(bench.store.calls("release").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_guard_whose_grace_runs_out_is_lost_unconfirmed_and_stays_lost() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    bench.store.faults.inject("renew", Kind::CutReply, ALWAYS);
    let start = bench.clock.now();
    assert_eq!(guard.lost().await, Lost::Unconfirmed);
    let took = bench.clock.now().since(start);
    assert!(took >= ms(DEADLINE + TTL) && took < ms(DEADLINE + TTL + 100), "{took:?}");
    bench.store.faults.heal();
    bench.pass(TTL).await;
    assert_eq!(guard.state(), State::Lost(Lost::Unconfirmed));
    assert_eq!(bench.keeper.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn policy_abort_knows_no_suspension() {
    let bench = Bench::new();
    let guard = bench.take("k", terms().policy(Policy::Abort)).await;
    bench.store.faults.inject("renew", Kind::CutReply, ALWAYS);
    let start = bench.clock.now();
    assert_eq!(guard.lost().await, Lost::Unconfirmed);
    let took = bench.clock.now().since(start);
    assert!(took >= ms(DEADLINE - 10) && took < ms(DEADLINE + 100), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn policy_fail_closed_is_lost_at_the_first_failure() {
    let bench = Bench::new();
    let guard = bench.take("k", terms().policy(Policy::FailClosed)).await;
    bench.store.faults.inject("renew", Kind::Refused, 1);
    let start = bench.clock.now();
    assert_eq!(guard.lost().await, Lost::Unconfirmed);
    assert!(bench.clock.now().since(start) <= ms(5_100));
    assert_eq!(bench.store.calls("renew").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn policy_fail_closed_waits_a_sixth_of_the_ttl_for_its_one_answer() {
    let bench = Bench::new();
    let guard = bench.take("k", terms().policy(Policy::FailClosed)).await;
    bench.store.faults.inject("renew", Kind::SlowReply(ms(2_400)), 1);
    bench.store.faults.inject("renew", Kind::Hang, 1);
    bench.pass(9_000).await;
    assert_eq!(guard.state(), State::Held);
    assert_eq!(guard.lost().await, Lost::Unconfirmed);
    let sent = bench.store.calls("renew")[1].at;
    assert!(bench.clock.now().since(sent) <= ms(2_500 + 10));
}

#[tokio::test(start_paused = true)]
async fn a_reign_that_others_ended_is_lost_with_their_reason() {
    let bench = Bench::new();
    for end in [End::Revoked, End::Wiped, End::Superseded] {
        let guard = bench.take("k", terms()).await;
        bench.store.end("k", end);
        assert_eq!(guard.lost().await, Lost::Ended(end));
        assert!(matches!(guard.permit(ms(0)), Err(NotSafe::Lost(_))));
    }
    bench.keeper.settled().await;
    let released = bench.store.calls("release").len();
    assert_eq!(released, 1, "nothing is owed for what somebody ended on purpose");
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_was_superseded_gives_its_token_up() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    bench.store.end("k", End::Superseded);
    assert_eq!(guard.lost().await, Lost::Ended(End::Superseded));
    // What it was followed by may be a copy of its own claim.
    assert!(bench.store.calls("release").is_empty());
    drop(guard);
    bench.keeper.settled().await;
    assert_eq!(bench.store.calls("release").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn renewals_stop_when_the_worker_is_silent_and_go_on_when_it_ticks() {
    let bench = Bench::new();
    let liveness = Liveness::Progress { max_silence: Duration::from_secs(4) };
    let guard = bench.take("k", terms().liveness(liveness)).await;
    for _ in 0..30 {
        bench.pass(1_000).await;
        guard.tick();
    }
    assert_eq!(guard.state(), State::Held);
    let renewals = bench.store.calls("renew").len();
    assert!(renewals >= 5, "{renewals}");
    let silent_from = bench.clock.now();
    assert_eq!(guard.lost().await, Lost::Silent);
    assert!(bench.clock.now().since(silent_from) < ms(TTL + 5_000));
    guard.tick();
    assert_eq!(guard.state(), State::Lost(Lost::Silent));
}

#[tokio::test(start_paused = true)]
async fn nobody_holds_longer_than_the_terms_allow() {
    let bench = Bench::new();
    let guard = bench.take("k", terms().max_hold(Duration::from_secs(60))).await;
    bench.pass(59_000).await;
    assert_eq!(guard.state(), State::Held);
    assert!(matches!(guard.permit(ms(2_000)), Err(NotSafe::TooLate { .. })));
    assert_eq!(guard.lost().await, Lost::HeldTooLong);
    drop(guard);
    bench.keeper.settled().await;
    assert_eq!(bench.store.holder("k"), None);
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_slept_through_its_grace_is_lost_whatever_the_store_says() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    bench.suspend(TTL * 3);
    assert_eq!(guard.state(), State::Lost(Lost::Unconfirmed));
    bench.pass(TTL).await;
    assert_eq!(guard.state(), State::Lost(Lost::Unconfirmed));
    assert!(bench.keeper.try_acquire(key("k"), terms()).await.is_ok());
}

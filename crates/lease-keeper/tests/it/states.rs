//! Held, Jeopardy, Suspended, Lost.

use std::time::Duration;

use tenure_keeper::{GuardState, Liveness, Lost, PermitError, Policy};
use tenure_lease::{Clock, End};

use crate::faults::{ALWAYS, Kind};
use crate::fixture::{DEADLINE, Fixture, TTL, key, ms, terms};

#[tokio::test(start_paused = true)]
async fn a_healthy_guard_stays_held() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    for _ in 0..100 {
        fixture.pass(1_000).await;
        assert_eq!(guard.state(), GuardState::Held);
    }
    assert!(fixture.store.holder("k").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_failed_renewal_is_jeopardy_and_the_next_success_ends_it() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    fixture.store.faults.inject("renew", Kind::Refused, 2);
    let mut states = guard.states();
    states.changed().await.unwrap();
    assert_eq!(*states.borrow_and_update(), GuardState::Jeopardy);
    // Still exclusive.
    guard.permit(ms(1_000)).unwrap();
    states.changed().await.unwrap();
    assert_eq!(*states.borrow(), GuardState::Held);
    assert_eq!(fixture.store.calls("renew").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_never_extends_even_if_the_store_did_it() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let deadline = guard.deadline();
    fixture.store.faults.inject("renew", Kind::CutReply, ALWAYS);
    fixture.pass(DEADLINE - 100).await;
    assert_eq!(guard.deadline(), deadline);
    assert_eq!(guard.state(), GuardState::Jeopardy);
    fixture.pass(200).await;
    assert_eq!(guard.state(), GuardState::Suspended);
    // Although the store kept renewing.
    assert!(fixture.store.holder("k").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_suspended_guard_is_held_again_when_the_store_confirms_its_generation() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let generation = guard.generation();
    fixture.store.faults.inject("renew", Kind::CutReply, ALWAYS);
    fixture.pass(TTL).await;
    assert_eq!(guard.permit(ms(0)).unwrap_err(), PermitError::Suspended);
    fixture.store.faults.heal();
    fixture.pass(2_000).await;
    assert_eq!(guard.state(), GuardState::Held);
    assert_eq!(guard.permit(ms(0)).unwrap().generation(), generation);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_guard_is_lost_when_the_store_reports_its_end() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    fixture.store.faults.inject("renew", Kind::Refused, ALWAYS);
    fixture.pass(TTL + 100).await;
    fixture.store.faults.heal();
    // The store received no renewal, so the reign expired there.
    assert_eq!(guard.lost().await, Lost::Ended(End::Expired));
    // A copy of the claim that the network duplicated may be granted now: the token is released.
    assert!(fixture.store.calls("release").is_empty());
    drop(guard);
    fixture.keeper.settled().await;
    assert_eq!(fixture.store.calls("release").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_guard_whose_grace_runs_out_is_lost_unconfirmed_and_stays_lost() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    fixture.store.faults.inject("renew", Kind::CutReply, ALWAYS);
    let start = fixture.clock.now();
    assert_eq!(guard.lost().await, Lost::Unconfirmed);
    let took = fixture.clock.now().since(start);
    assert!(took >= ms(DEADLINE + TTL) && took < ms(DEADLINE + TTL + 100), "{took:?}");
    fixture.store.faults.heal();
    fixture.pass(TTL).await;
    assert_eq!(guard.state(), GuardState::Lost(Lost::Unconfirmed));
    assert_eq!(fixture.keeper.held(), 0);
}

#[tokio::test(start_paused = true)]
async fn policy_abort_knows_no_suspension() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms().policy(Policy::Abort)).await;
    fixture.store.faults.inject("renew", Kind::CutReply, ALWAYS);
    let start = fixture.clock.now();
    assert_eq!(guard.lost().await, Lost::Unconfirmed);
    let took = fixture.clock.now().since(start);
    assert!(took >= ms(DEADLINE - 10) && took < ms(DEADLINE + 100), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn policy_fail_closed_is_lost_at_the_first_failure() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms().policy(Policy::FailClosed)).await;
    fixture.store.faults.inject("renew", Kind::Refused, 1);
    let start = fixture.clock.now();
    assert_eq!(guard.lost().await, Lost::Unconfirmed);
    assert!(fixture.clock.now().since(start) <= ms(5_100));
    assert_eq!(fixture.store.calls("renew").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn policy_fail_closed_waits_a_sixth_of_the_ttl_for_its_response() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms().policy(Policy::FailClosed)).await;
    fixture.store.faults.inject("renew", Kind::SlowReply(ms(2_400)), 1);
    fixture.store.faults.inject("renew", Kind::Hang, 1);
    fixture.pass(9_000).await;
    assert_eq!(guard.state(), GuardState::Held);
    assert_eq!(guard.lost().await, Lost::Unconfirmed);
    let sent = fixture.store.calls("renew")[1].at;
    assert!(fixture.clock.now().since(sent) <= ms(2_500 + 10));
}

#[tokio::test(start_paused = true)]
async fn a_reign_that_others_ended_is_lost_with_their_reason() {
    let fixture = Fixture::new();
    for end in [End::Revoked, End::Wiped, End::Superseded] {
        let guard = fixture.take("k", terms()).await;
        fixture.store.end("k", end);
        assert_eq!(guard.lost().await, Lost::Ended(end));
        assert!(matches!(guard.permit(ms(0)), Err(PermitError::Lost(_))));
    }
    fixture.keeper.settled().await;
    let released = fixture.store.calls("release").len();
    assert_eq!(released, 1, "nothing is owed for a lease that was ended on purpose");
}

#[tokio::test(start_paused = true)]
async fn a_superseded_guard_releases_its_token() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    fixture.store.end("k", End::Superseded);
    assert_eq!(guard.lost().await, Lost::Ended(End::Superseded));
    // Its successor may be a copy of its own claim.
    assert!(fixture.store.calls("release").is_empty());
    drop(guard);
    fixture.keeper.settled().await;
    assert_eq!(fixture.store.calls("release").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn renewals_stop_when_the_worker_stalls_and_resume_when_it_ticks() {
    let fixture = Fixture::new();
    let liveness = Liveness::Progress { max_silence: Duration::from_secs(4) };
    let guard = fixture.take("k", terms().liveness(liveness)).await;
    for _ in 0..30 {
        fixture.pass(1_000).await;
        guard.tick();
    }
    assert_eq!(guard.state(), GuardState::Held);
    let renewals = fixture.store.calls("renew").len();
    assert!(renewals >= 5, "{renewals}");
    let silent_from = fixture.clock.now();
    assert_eq!(guard.lost().await, Lost::Silent);
    assert!(fixture.clock.now().since(silent_from) < ms(TTL + 5_000));
    guard.tick();
    assert_eq!(guard.state(), GuardState::Lost(Lost::Silent));
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_held_no_longer_than_its_terms_permit() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms().max_hold(Duration::from_secs(60))).await;
    fixture.pass(59_000).await;
    assert_eq!(guard.state(), GuardState::Held);
    assert!(matches!(guard.permit(ms(2_000)), Err(PermitError::TooLate { .. })));
    assert_eq!(guard.lost().await, Lost::HeldTooLong);
    drop(guard);
    fixture.keeper.settled().await;
    assert_eq!(fixture.store.holder("k"), None);
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_was_suspended_through_its_grace_period_is_lost() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    fixture.suspend(TTL * 3);
    assert_eq!(guard.state(), GuardState::Lost(Lost::Unconfirmed));
    fixture.pass(TTL).await;
    assert_eq!(guard.state(), GuardState::Lost(Lost::Unconfirmed));
    assert!(fixture.keeper.try_acquire(key("k"), terms()).await.is_ok());
}

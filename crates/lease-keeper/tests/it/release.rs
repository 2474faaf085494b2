//! Releases.

use tenure_keeper::{Error, PermitError, TransferOutcome, limits};
use tenure_lease::{BusyReason, Clock, Released};

use crate::faults::{ALWAYS, Kind};
use crate::fixture::{Fixture, TTL, holder, key, ms, terms};

#[tokio::test(start_paused = true)]
async fn a_released_key_is_free_at_once() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    drop(fixture.other("b").try_acquire(key("k"), terms()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_is_released_without_blocking() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let held = guard.share();
    drop(guard);
    // In this process at once, in the store as soon as the reaper runs.
    assert!(matches!(held.permit(ms(0)), Err(PermitError::Lost(_))));
    fixture.keeper.settled().await;
    assert_eq!(fixture.store.holder("k"), None);
    assert_eq!(fixture.store.calls("release").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn guards_dropped_with_the_keeper_are_still_released() {
    let fixture = Fixture::new();
    let other = fixture.other("b");
    let guard = other.try_acquire(key("k"), terms()).await.unwrap();
    drop(other);
    drop(guard);
    fixture.pass(10).await;
    assert_eq!(fixture.store.holder("k"), None);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_is_retried_by_the_reaper() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    fixture.store.faults.inject("release", Kind::Refused, 1);
    assert!(matches!(guard.release().await, Err(Error::Store(_))));
    fixture.keeper.settled().await;
    assert_eq!(fixture.store.holder("k"), None);
    assert_eq!(fixture.store.calls("release").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_release_for_an_absent_successor_reserves_the_key_for_a_while() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    guard.release_to(holder("successor")).await.unwrap();
    let error = fixture.other("b").try_acquire(key("k"), terms()).await.unwrap_err();
    assert_eq!(error.busy().unwrap().reason.as_str(), "reserved");
    drop(fixture.other("successor").try_acquire(key("k"), terms()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_transfer_without_a_successor_returns_the_guard() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let TransferOutcome::NoSuccessor(guard) = guard.transfer(holder("b")).await else { panic!() };
    guard.permit(ms(0)).unwrap();
    fixture.pass(TTL).await;
    guard.permit(ms(0)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_transfer_whose_response_was_lost_is_resolved() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let generation = guard.generation();
    let other = fixture.other("b");
    let waiting = other.acquire(key("k"), terms(), ms(10_000));
    fixture.store.faults.inject("transfer", Kind::CutReply, 1);
    let moving = async {
        fixture.pass(100).await;
        guard.transfer(holder("b")).await
    };
    let (second, moved) = tokio::join!(waiting, moving);
    let second = second.unwrap();
    let TransferOutcome::Transferred(lease) = moved else { panic!("{moved:?}") };
    assert_eq!(lease.generation, second.generation());
    assert!(lease.generation > generation);
}

#[tokio::test(start_paused = true)]
async fn a_transfer_that_stays_unknown_returns_a_guard_that_neither_permits_nor_releases() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let (held, generation, start) = (guard.share(), guard.generation(), fixture.clock.now());
    fixture.store.faults.inject("transfer", Kind::Hang, ALWAYS);
    let TransferOutcome::InDoubt { guard, .. } = guard.transfer(holder("b")).await else { panic!() };
    assert!(fixture.clock.now().since(start) <= limits::TRANSFER);
    assert_eq!(guard.permit(ms(0)).unwrap_err(), PermitError::Draining);
    // It is renewed as long as the guard lives.
    fixture.pass(2 * TTL).await;
    assert_eq!(fixture.store.holder("k").unwrap().1, generation);
    drop(guard);
    fixture.keeper.settled().await;
    assert!(held.permit(ms(0)).is_err() && fixture.store.calls("release").is_empty());
    fixture.pass(2 * TTL).await;
    assert_eq!(fixture.store.holder("k"), None, "nothing renews it");
}

#[tokio::test(start_paused = true)]
async fn a_transfer_in_doubt_is_settled_by_replacing_the_own_generation() {
    let fixture = Fixture::new();
    for landed in [false, true] {
        let guard = fixture.take("k", terms()).await;
        let (generation, other) = (guard.generation(), fixture.other("b"));
        let waiting = other.acquire(key("k"), terms(), ms(3_000));
        fixture.store.faults.inject("transfer", if landed { Kind::HangAfter } else { Kind::Hang }, 1);
        fixture.store.faults.inject("transfer", Kind::Hang, ALWAYS);
        let moving = async {
            fixture.pass(100).await;
            let TransferOutcome::InDoubt { guard, .. } = guard.transfer(holder("b")).await else { panic!() };
            let back = fixture.keeper.replace(key("k"), terms(), generation).await;
            drop(guard);
            back
        };
        let (second, back) = tokio::join!(waiting, moving);
        fixture.store.faults.heal();
        match landed {
            true => {
                assert_eq!(back.unwrap_err().busy().unwrap().reason, BusyReason::NotThatGeneration);
                second.unwrap().release().await.unwrap();
            }
            false => {
                assert!(second.is_err());
                back.unwrap().release().await.unwrap();
            }
        }
        fixture.keeper.settled().await;
    }
}

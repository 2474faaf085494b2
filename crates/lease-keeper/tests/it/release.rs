//! Giving back.

use lease::Released;
use lease_keeper::{Error, Moved, NotSafe};

use crate::bench::{Bench, TTL, holder, key, ms, terms};
use crate::faults::{ALWAYS, Kind};

#[tokio::test(start_paused = true)]
async fn a_released_key_is_free_at_once() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    drop(bench.other("b").try_acquire(key("k"), terms()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_is_released_without_blocking() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let held = guard.share();
    drop(guard);
    // In this process at once, in the store as soon as the reaper runs.
    assert!(matches!(held.permit(ms(0)), Err(NotSafe::Lost(_))));
    bench.keeper.settled().await;
    assert_eq!(bench.store.holder("k"), None);
    assert_eq!(bench.store.calls("release").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn guards_dropped_with_the_keeper_are_still_released() {
    let bench = Bench::new();
    let other = bench.other("b");
    let guard = other.try_acquire(key("k"), terms()).await.unwrap();
    drop(other);
    drop(guard);
    bench.pass(10).await;
    assert_eq!(bench.store.holder("k"), None);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_is_the_reapers() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    bench.store.faults.inject("release", Kind::Refused, 1);
    assert!(matches!(guard.release().await, Err(Error::Store(_))));
    bench.keeper.settled().await;
    assert_eq!(bench.store.holder("k"), None);
    assert_eq!(bench.store.calls("release").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_release_for_an_heir_that_is_not_there_keeps_the_key_for_it_for_a_while() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    guard.release_to(holder("heir")).await.unwrap();
    let error = bench.other("b").try_acquire(key("k"), terms()).await.unwrap_err();
    assert_eq!(error.busy().unwrap().reason.as_str(), "reserved");
    drop(bench.other("heir").try_acquire(key("k"), terms()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_transfer_without_a_successor_gives_the_guard_back() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let Moved::NoSuccessor(guard) = guard.transfer(holder("b")).await.unwrap() else { panic!() };
    guard.permit(ms(0)).unwrap();
    bench.pass(TTL).await;
    guard.permit(ms(0)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_transfer_whose_reply_was_cut_is_found_out() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let generation = guard.generation();
    let other = bench.other("b");
    let waiting = other.acquire(key("k"), terms(), ms(10_000));
    bench.store.faults.inject("transfer", Kind::CutReply, 1);
    let moving = async {
        bench.pass(100).await;
        guard.transfer(holder("b")).await.unwrap()
    };
    let (second, moved) = tokio::join!(waiting, moving);
    let second = second.unwrap();
    let Moved::To(lease) = moved else { panic!("{moved:?}") };
    assert_eq!(lease.generation, second.generation());
    assert!(lease.generation > generation);
}

#[tokio::test(start_paused = true)]
async fn a_transfer_that_stays_unknown_holds_nothing_any_more() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let held = guard.share();
    bench.store.faults.inject("transfer", Kind::Hang, ALWAYS);
    assert!(guard.transfer(holder("b")).await.is_err());
    assert!(held.permit(ms(0)).is_err());
    bench.keeper.settled().await;
    assert_eq!(bench.store.holder("k"), None);
}

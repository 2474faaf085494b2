//! The keeper on the real memory engine, where the fake would agree with its own mistakes.

use std::collections::BTreeSet;
use std::sync::Arc;

use tenure_keeper::{Gate, GuardState, Handoff, HandoffOutcome, Keeper, Lost, Slots};
use tenure_lease::{Clock, End, Mode, Phase};
use tenure_store::{Local, Store, TokioClock};

use crate::fixture::{TTL, holder, key, ms, prefix, terms};

fn engine() -> (Arc<TokioClock>, Store) {
    let clock = Arc::new(TokioClock::default());
    (clock.clone(), Store::new(Local::memory_on(clock)))
}

async fn pass(clock: &TokioClock, millis: u64) {
    clock.sleep_until(clock.now() + ms(millis)).await;
}

#[tokio::test(start_paused = true)]
async fn guards_are_held_handed_over_and_released() {
    let (clock, store) = engine();
    let (from, to) = (Keeper::new(store.clone(), holder("from")), Keeper::new(store.clone(), holder("to")));
    let guard = from.try_acquire(key("k"), terms()).await.unwrap();
    pass(&clock, TTL * 4).await;
    assert_eq!(guard.state(), GuardState::Held);
    let first = guard.generation();
    let waiting = to.acquire(key("k"), terms(), ms(60_000));
    let moving = async {
        pass(&clock, 100).await;
        Handoff::new(guard, holder("to")).within(ms(5_000)).await.unwrap()
    };
    let (second, handed) = tokio::join!(waiting, moving);
    let second = second.unwrap();
    assert!(matches!(handed, HandoffOutcome::Transferred { .. }), "{handed:?}");
    assert!(second.generation() > first);
    assert_eq!(second.permit(ms(10)).unwrap().fence(Mode::Strict).generation, second.generation());
    drop(second);
    to.settled().await;
    assert_eq!(store.inspect(&key("k")).await.unwrap().phase, Phase::Free);
}

#[tokio::test(start_paused = true)]
async fn a_gate_wipes_and_slots_wake_their_waiters() {
    let (clock, store) = engine();
    let keeper = Keeper::builder(store.clone(), holder("a")).without_watchdog().build();
    let gate = Gate::open_with(&keeper, key("gate"), terms(), |lost| panic!("{lost}")).await.unwrap();
    let slots = Slots::new(&keeper, key("tuner"), 2).unwrap();
    let one = slots.take(terms(), ms(0)).await.unwrap();
    let two = slots.take(terms(), ms(0)).await.unwrap();
    assert_eq!(BTreeSet::from([one.index(), two.index()]), BTreeSet::from([0, 1]));
    let start = clock.now();
    let releasing = async {
        pass(&clock, 500).await;
        drop(two);
    };
    let (three, ()) = tokio::join!(slots.take(terms(), ms(60_000)), releasing);
    assert!(clock.now().since(start) < ms(600), "woken by the event");
    assert_eq!(gate.wipe(prefix("tuner/")).await.unwrap(), 2);
    assert_eq!(one.lost().await, Lost::Ended(End::Wiped));
    assert_eq!(three.unwrap().lost().await, Lost::Ended(End::Wiped));
    gate.close().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_waiter_takes_over_when_the_holder_dies() {
    let (_, store) = engine();
    let dying = Keeper::new(store.clone(), holder("dying"));
    let guard = dying.try_acquire(key("k"), terms().max_hold(ms(TTL))).await.unwrap();
    let first = guard.generation();
    let next = Keeper::new(store, holder("next"));
    let next = next.acquire(key("k"), terms(), ms(60_000)).await.unwrap();
    // Held for as long as its terms permit, then left to expire without a release.
    assert_eq!(guard.state(), GuardState::Lost(Lost::HeldTooLong));
    assert!(next.generation() > first);
    next.permit(ms(0)).unwrap();
}

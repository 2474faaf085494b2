//! Interchangeable keys.

use std::collections::{BTreeMap, BTreeSet};

use tenure_keeper::Slots;
use tenure_lease::Clock;
use tokio::task::JoinSet;

use crate::faults::{ALWAYS, Kind};
use crate::fixture::{Fixture, TTL, key, ms, prefix, terms};

#[tokio::test(start_paused = true)]
async fn every_slot_is_acquired_once_and_the_next_caller_gets_busy() {
    let fixture = Fixture::new();
    let slots = Slots::new(&fixture.keeper, key("tuner"), 4).unwrap();
    let mut taken = Vec::new();
    for _ in 0..4 {
        taken.push(slots.take(terms(), ms(0)).await.unwrap());
    }
    let indices: BTreeSet<_> = taken.iter().map(|slot| slot.index()).collect();
    assert_eq!(indices, BTreeSet::from([0, 1, 2, 3]));
    let error = slots.take(terms(), ms(0)).await.unwrap_err();
    assert!(error.busy().unwrap().remaining.is_some(), "{error}");
    assert_eq!(slots.in_use().await.unwrap().len(), 4);
    assert_eq!(taken[0].key().as_str(), format!("tuner/{}", taken[0].index()));
}

#[tokio::test(start_paused = true)]
async fn a_preferred_slot_is_tried_first() {
    let fixture = Fixture::new();
    let slots = Slots::new(&fixture.keeper, key("tuner"), 4).unwrap();
    let first = slots.take_from(2, terms(), ms(0)).await.unwrap();
    let second = slots.take_from(2, terms(), ms(0)).await.unwrap();
    assert_eq!((first.index(), second.index()), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn slots_may_have_any_numbers_and_keys() {
    let fixture = Fixture::new();
    let slots = Slots::under(&fixture.keeper, prefix("lease:tuner:"), BTreeSet::from([2, 5])).unwrap();
    let (one, two) = (slots.take(terms(), ms(0)).await.unwrap(), slots.take(terms(), ms(0)).await.unwrap());
    let keys = BTreeSet::from([one.key().to_string(), two.key().to_string()]);
    assert_eq!(keys, BTreeSet::from(["lease:tuner:2".into(), "lease:tuner:5".into()]));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_woken_when_a_slot_is_released() {
    let fixture = Fixture::new();
    let slots = Slots::new(&fixture.keeper, key("tuner"), 1).unwrap();
    let slot = slots.take(terms(), ms(0)).await.unwrap();
    let generation = slot.generation();
    let releasing = async {
        fixture.pass(700).await;
        slot.into_guard().release().await.unwrap();
        fixture.clock.now()
    };
    let (next, released) = tokio::join!(slots.take(terms(), ms(60_000)), releasing);
    assert!(next.unwrap().generation() > generation);
    assert!(fixture.clock.now().since(released) < ms(10));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_without_events_is_woken_by_its_timer() {
    let fixture = Fixture::new();
    fixture.store.faults.inject("watch", Kind::Refused, ALWAYS);
    let slots = Slots::new(&fixture.keeper, key("tuner"), 1).unwrap();
    let slot = slots.take(terms(), ms(0)).await.unwrap();
    let releasing = async {
        fixture.pass(700).await;
        drop(slot);
    };
    let (next, ()) = tokio::join!(slots.take(terms(), ms(60_000)), releasing);
    assert_eq!(next.unwrap().index(), 0);
}

#[tokio::test(start_paused = true)]
async fn growing_wakes_waiters_and_shrinking_drains() {
    let fixture = Fixture::new();
    let slots = Slots::new(&fixture.keeper, key("tuner"), 1).unwrap();
    let first = slots.take(terms(), ms(0)).await.unwrap();
    let growing = async {
        fixture.pass(300).await;
        slots.resize(2).unwrap();
    };
    let (second, ()) = tokio::join!(slots.take(terms(), ms(60_000)), growing);
    let second = second.unwrap();
    assert_eq!(second.index(), 1);

    slots.resize(1).unwrap();
    fixture.pass(TTL * 2).await;
    second.permit(ms(0)).expect("no holder is evicted");
    assert_eq!(slots.in_use().await.unwrap().keys().copied().collect::<Vec<_>>(), [0, 1]);
    second.into_guard().release().await.unwrap();
    assert!(slots.take(terms(), ms(0)).await.is_err(), "1 is not offered any more");
    drop(first);
    fixture.keeper.settled().await;
    assert_eq!(slots.take(terms(), ms(0)).await.unwrap().index(), 0);
}

#[tokio::test(start_paused = true)]
async fn concurrent_callers_never_share_a_slot() {
    let fixture = Fixture::new();
    let mut takers = JoinSet::new();
    for i in 0..12 {
        let keeper = fixture.other(&format!("p{i}"));
        let clock = fixture.clock.clone();
        takers.spawn(async move {
            let slots = Slots::new(&keeper, key("tuner"), 3).unwrap();
            let mut reigns = Vec::new();
            for round in 0..5 {
                let slot = slots.take(terms(), ms(600_000)).await.unwrap();
                let from = clock.now();
                clock.sleep_until(from + ms(100 + 37 * ((i + round) % 5))).await;
                slot.permit(ms(0)).unwrap();
                reigns.push((slot.index(), slot.generation(), from, clock.now()));
                slot.into_guard().release().await.unwrap();
            }
            reigns
        });
    }
    let reigns: Vec<_> = takers.join_all().await.into_iter().flatten().collect();
    assert_eq!(reigns.len(), 60);
    let mut by_index: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (index, generation, from, until) in reigns {
        by_index.entry(index).or_default().push((generation, from, until));
    }
    for (index, mut reigns) in by_index {
        assert!(index < 3);
        reigns.sort();
        for pair in reigns.windows(2) {
            assert!(pair[0].0 < pair[1].0, "slot {index}: one generation, one holder");
            assert!(pair[0].2 <= pair[1].1, "slot {index}: {pair:?} overlap");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_does_not_block_a_caller() {
    let fixture = Fixture::new();
    let slots = Slots::new(&fixture.keeper, key("tuner"), 1).unwrap();
    for verb in ["watch", "list", "acquire"] {
        fixture.store.faults.inject(verb, Kind::Hang, ALWAYS);
        let start = fixture.clock.now();
        drop(slots.take(terms(), ms(1_000)).await);
        assert!(fixture.clock.now().since(start) <= ms(11_000), "{verb}");
        fixture.store.faults.heal();
    }
}

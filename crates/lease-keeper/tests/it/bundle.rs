//! Several keys or none.

use std::collections::BTreeSet;

use lease::End;
use lease_keeper::{Bundle, Error, Keeper, Lost};

use crate::bench::{Bench, key, ms, terms};
use crate::faults::{ALWAYS, Kind};

fn wants(names: &[&str]) -> Vec<(lease::Key, lease_keeper::Terms)> {
    names.iter().map(|name| (key(name), terms())).collect()
}

fn keys(bench: &Bench, verb: &str) -> Vec<String> {
    bench.store.calls(verb).into_iter().flat_map(|call| call.keys).collect()
}

#[tokio::test(start_paused = true)]
async fn keys_are_taken_in_one_order_whatever_order_they_are_given_in_and_given_back_in_reverse() {
    for names in [["a", "b", "c"], ["c", "b", "a"], ["b", "a", "c"], ["b", "c", "a"]] {
        let bench = Bench::new();
        let bundle = Bundle::acquire(&bench.keeper, &wants(&names), ms(0)).await.unwrap();
        assert_eq!(keys(&bench, "acquire"), ["a", "b", "c"], "given as {names:?}");
        let held: Vec<_> = bundle.guards().iter().map(|guard| guard.key().as_str()).collect();
        assert_eq!(held, ["a", "b", "c"], "in the order taken");
        assert!(names.iter().all(|name| bundle.get(&key(name)).is_some()));
        bundle.check(ms(100)).unwrap();
        bundle.release().await.unwrap();
        assert_eq!(keys(&bench, "release"), ["c", "b", "a"]);
    }
}

/// On a network that takes its time, so that both are under way at once.
#[tokio::test(start_paused = true)]
async fn two_bundles_over_the_same_keys_in_opposite_orders_get_them_in_turn() {
    let bench = Bench::new();
    bench.store.faults.inject("acquire", Kind::Late(ms(10)), ALWAYS);
    bench.store.faults.inject("release", Kind::Late(ms(10)), ALWAYS);
    let turn = async |keeper: Keeper, names: [&str; 2]| {
        let bundle = Bundle::acquire(&keeper, &wants(&names), ms(60_000)).await.unwrap();
        let before = keys(&bench, "release").len();
        bench.pass(1_000).await;
        bundle.check(ms(0)).unwrap();
        assert_eq!(keys(&bench, "release").len(), before, "nobody else had anything meanwhile");
        bundle.release().await.unwrap();
        before
    };
    let (there, back) = (turn(bench.keeper.clone(), ["1", "2"]), turn(bench.other("b"), ["2", "1"]));
    let (one, two) = tokio::join!(there, back);
    assert_eq!(BTreeSet::from([one, two]), BTreeSet::from([0, 2]), "one after the other");
    // Nobody gave anything back to try again.
    assert_eq!(keys(&bench, "release"), ["2", "1", "2", "1"]);
}

#[tokio::test(start_paused = true)]
async fn bundles_that_met_the_same_holder_do_not_come_back_in_step() {
    let bench = Bench::new();
    let (other, third) = (bench.other("b"), bench.other("c"));
    let _held = third.try_acquire(key("3"), terms()).await.unwrap();
    let (left, right) = (wants(&["1", "3"]), wants(&["2", "3"]));
    let (one, two) = tokio::join!(
        Bundle::acquire(&bench.keeper, &left, ms(10_000)),
        Bundle::acquire(&other, &right, ms(10_000)),
    );
    assert!(one.is_err() && two.is_err());
    let tries = |first: &str| -> Vec<_> {
        let calls = bench.store.calls("acquire").into_iter();
        calls.filter(|call| call.keys == [first]).map(|call| call.at).collect()
    };
    let (one, two) = (tries("1"), tries("2"));
    assert_eq!(one[0], two[0], "they began together");
    assert_ne!(one[1..6], two[1..6]);
    for pair in one.windows(2).take(5) {
        let pause = pair[1].since(pair[0]);
        assert!(
            pause >= ms(1_350) && pause <= ms(1_500),
            "a tenth of the TTL, or up to a tenth less: {pause:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_key_rolls_back_what_was_taken_in_reverse() {
    let bench = Bench::new();
    let other = bench.other("b");
    let _held = other.try_acquire(key("3"), terms()).await.unwrap();
    let error = Bundle::acquire(&bench.keeper, &wants(&["1", "2", "3", "4"]), ms(0)).await.unwrap_err();
    assert!(matches!(error, Error::Busy { key: k, .. } if k == key("3")));
    assert_eq!(keys(&bench, "release"), ["2", "1"]);
    assert!(["1", "2", "4"].iter().all(|key| bench.store.holder(key).is_none()));
}

#[tokio::test(start_paused = true)]
async fn nobody_holds_while_waiting() {
    let bench = Bench::new();
    let other = bench.other("b");
    let held = other.try_acquire(key("2"), terms()).await.unwrap();
    let wants = wants(&["1", "2"]);
    let taking = Bundle::acquire(&bench.keeper, &wants, ms(60_000));
    let releasing = async {
        let mut free = 0;
        for _ in 0..100 {
            bench.pass(100).await;
            free += usize::from(bench.store.holder("1").is_none());
        }
        held.release().await.unwrap();
        free
    };
    let (bundle, free) = tokio::join!(taking, releasing);
    assert_eq!(bundle.unwrap().guards().len(), 2);
    assert!(free > 95, "1 was free most of the time: {free} of 100");
}

#[tokio::test(start_paused = true)]
async fn the_first_loss_is_told_and_the_deadline_is_the_earliest() {
    let bench = Bench::new();
    let mut bundle = Bundle::acquire(&bench.keeper, &wants(&["1", "2"]), ms(0)).await.unwrap();
    bench.pass(1_000).await;
    bundle.add(bench.take("3", terms()).await);
    assert_eq!(bundle.deadline(), Some(bundle.guards()[0].deadline()));
    bench.store.end("2", End::Revoked);
    assert_eq!(bundle.lost().await, (key("2"), Lost::Ended(End::Revoked)));
    assert!(bundle.check(ms(0)).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_bundle_and_a_dropped_try_hold_nothing() {
    let bench = Bench::new();
    drop(Bundle::acquire(&bench.keeper, &wants(&["1", "2"]), ms(0)).await.unwrap());
    bench.keeper.settled().await;
    assert_eq!(keys(&bench, "release"), ["2", "1"]);
    bench.store.faults.inject_for("acquire", "4", Kind::HangAfter, ALWAYS);
    {
        let wants = wants(&["3", "4"]);
        tokio::select! {
            biased;
            _ = Bundle::acquire(&bench.keeper, &wants, ms(0)) => panic!("answered"),
            () = bench.pass(100) => {}
        }
    }
    bench.keeper.settled().await;
    assert!(["3", "4"].iter().all(|key| bench.store.holder(key).is_none()));
}

#[tokio::test(start_paused = true)]
async fn a_bundle_with_a_key_twice_is_refused() {
    let bench = Bench::new();
    assert!(Bundle::acquire(&bench.keeper, &wants(&["1", "1"]), ms(0)).await.is_err());
    assert!(Bundle::acquire(&bench.keeper, &wants(&["1", "2", "1"]), ms(0)).await.is_err());
    assert!(Bundle::acquire(&bench.keeper, &[], ms(0)).await.is_err());
    assert!(bench.store.calls("acquire").is_empty());
}

//! Several keys, all or none.

use std::collections::BTreeSet;

use tenure_keeper::{Bundle, Error, Keeper, Lost};
use tenure_lease::End;

use crate::faults::{ALWAYS, Kind};
use crate::fixture::{Fixture, key, ms, terms};

fn wants(names: &[&str]) -> Vec<(tenure_lease::Key, tenure_keeper::Terms)> {
    names.iter().map(|name| (key(name), terms())).collect()
}

fn keys(fixture: &Fixture, verb: &str) -> Vec<String> {
    fixture.store.calls(verb).into_iter().flat_map(|call| call.keys).collect()
}

#[tokio::test(start_paused = true)]
async fn keys_are_acquired_in_one_order_and_released_in_reverse() {
    for names in [["a", "b", "c"], ["c", "b", "a"], ["b", "a", "c"], ["b", "c", "a"]] {
        let fixture = Fixture::new();
        let bundle = Bundle::acquire(&fixture.keeper, &wants(&names), ms(0)).await.unwrap();
        assert_eq!(keys(&fixture, "acquire"), ["a", "b", "c"], "given as {names:?}");
        let held: Vec<_> = bundle.guards().iter().map(|guard| guard.key().as_str()).collect();
        assert_eq!(held, ["a", "b", "c"], "in the order taken");
        assert!(names.iter().all(|name| bundle.get(&key(name)).is_some()));
        bundle.check(ms(100)).unwrap();
        bundle.release().await.unwrap();
        assert_eq!(keys(&fixture, "release"), ["c", "b", "a"]);
    }
}

/// On a slow network, so that both run concurrently.
#[tokio::test(start_paused = true)]
async fn two_bundles_over_the_same_keys_in_opposite_orders_do_not_deadlock() {
    let fixture = Fixture::new();
    fixture.store.faults.inject("acquire", Kind::Late(ms(10)), ALWAYS);
    fixture.store.faults.inject("release", Kind::Late(ms(10)), ALWAYS);
    let turn = async |keeper: Keeper, names: [&str; 2]| {
        let bundle = Bundle::acquire(&keeper, &wants(&names), ms(60_000)).await.unwrap();
        let before = keys(&fixture, "release").len();
        fixture.pass(1_000).await;
        bundle.check(ms(0)).unwrap();
        assert_eq!(keys(&fixture, "release").len(), before, "no other holder had anything meanwhile");
        bundle.release().await.unwrap();
        before
    };
    let (there, back) = (turn(fixture.keeper.clone(), ["1", "2"]), turn(fixture.other("b"), ["2", "1"]));
    let (one, two) = tokio::join!(there, back);
    assert_eq!(BTreeSet::from([one, two]), BTreeSet::from([0, 2]), "one after the other");
    // Neither released anything to retry.
    assert_eq!(keys(&fixture, "release"), ["2", "1", "2", "1"]);
}

#[tokio::test(start_paused = true)]
async fn bundles_blocked_by_the_same_holder_do_not_retry_in_step() {
    let fixture = Fixture::new();
    let (other, third) = (fixture.other("b"), fixture.other("c"));
    let _held = third.try_acquire(key("3"), terms()).await.unwrap();
    let (left, right) = (wants(&["1", "3"]), wants(&["2", "3"]));
    let (one, two) = tokio::join!(
        Bundle::acquire(&fixture.keeper, &left, ms(10_000)),
        Bundle::acquire(&other, &right, ms(10_000)),
    );
    assert!(one.is_err() && two.is_err());
    let tries = |first: &str| -> Vec<_> {
        let calls = fixture.store.calls("acquire").into_iter();
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
async fn a_busy_key_releases_the_acquired_ones_in_reverse() {
    let fixture = Fixture::new();
    let other = fixture.other("b");
    let _held = other.try_acquire(key("3"), terms()).await.unwrap();
    let error = Bundle::acquire(&fixture.keeper, &wants(&["1", "2", "3", "4"]), ms(0)).await.unwrap_err();
    assert!(matches!(error, Error::Busy { key: k, .. } if k == key("3")));
    assert_eq!(keys(&fixture, "release"), ["2", "1"]);
    assert!(["1", "2", "4"].iter().all(|key| fixture.store.holder(key).is_none()));
}

#[tokio::test(start_paused = true)]
async fn a_bundle_holds_nothing_while_it_waits() {
    let fixture = Fixture::new();
    let other = fixture.other("b");
    let held = other.try_acquire(key("2"), terms()).await.unwrap();
    let wants = wants(&["1", "2"]);
    let taking = Bundle::acquire(&fixture.keeper, &wants, ms(60_000));
    let releasing = async {
        let mut free = 0;
        for _ in 0..100 {
            fixture.pass(100).await;
            free += usize::from(fixture.store.holder("1").is_none());
        }
        held.release().await.unwrap();
        free
    };
    let (bundle, free) = tokio::join!(taking, releasing);
    assert_eq!(bundle.unwrap().guards().len(), 2);
    assert!(free > 95, "1 was free most of the time: {free} of 100");
}

#[tokio::test(start_paused = true)]
async fn the_first_loss_is_reported_and_the_deadline_is_the_earliest() {
    let fixture = Fixture::new();
    let mut bundle = Bundle::acquire(&fixture.keeper, &wants(&["1", "2"]), ms(0)).await.unwrap();
    fixture.pass(1_000).await;
    bundle.add(fixture.take("3", terms()).await);
    assert_eq!(bundle.deadline(), Some(bundle.guards()[0].deadline()));
    fixture.store.end("2", End::Revoked);
    assert_eq!(bundle.lost().await, (key("2"), Lost::Ended(End::Revoked)));
    assert!(bundle.check(ms(0)).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_bundle_and_a_dropped_attempt_hold_nothing() {
    let fixture = Fixture::new();
    drop(Bundle::acquire(&fixture.keeper, &wants(&["1", "2"]), ms(0)).await.unwrap());
    fixture.keeper.settled().await;
    assert_eq!(keys(&fixture, "release"), ["2", "1"]);
    fixture.store.faults.inject_for("acquire", "4", Kind::HangAfter, ALWAYS);
    {
        let wants = wants(&["3", "4"]);
        tokio::select! {
            biased;
            _ = Bundle::acquire(&fixture.keeper, &wants, ms(0)) => panic!("answered"),
            () = fixture.pass(100) => {}
        }
    }
    fixture.keeper.settled().await;
    assert!(["3", "4"].iter().all(|key| fixture.store.holder(key).is_none()));
}

#[tokio::test(start_paused = true)]
async fn a_bundle_with_a_duplicate_key_is_refused() {
    let fixture = Fixture::new();
    assert!(Bundle::acquire(&fixture.keeper, &wants(&["1", "1"]), ms(0)).await.is_err());
    assert!(Bundle::acquire(&fixture.keeper, &wants(&["1", "2", "1"]), ms(0)).await.is_err());
    assert!(Bundle::acquire(&fixture.keeper, &[], ms(0)).await.is_err());
    assert!(fixture.store.calls("acquire").is_empty());
}

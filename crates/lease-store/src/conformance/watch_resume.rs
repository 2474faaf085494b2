//! A watch goes on where it was, or says that it cannot.

use std::collections::{BTreeMap, HashMap};

use tenure_lease::{
    Acquired, Claim, End, Event, Generation, Key, Query, Revision, Verb, Watched, Wipe, limits,
};

use super::verbs::put;
use super::{Harness, Watcher, expect_ok};
use crate::Store;

/// Some changes of leases, one revision each.
async fn churn(harness: &Harness, names: &[&str]) {
    for name in names {
        let held = harness.hold(&harness.key(name), "ann").await;
        harness.release_held(&held).await;
    }
}

pub async fn a_resumed_watch_sees_everything_after_its_revision_once(harness: &Harness) {
    let mut whole = harness.watch(&harness.prefix(), None).await;
    churn(harness, &["a", "b", "a"]).await;
    let all = whole.take(harness, 6).await;
    for (place, event) in all.iter().enumerate() {
        let mut tail = harness.watch(&harness.prefix(), Some(event.revision)).await;
        let rest: Vec<&Event> = all[place + 1..].iter().collect();
        assert_eq!(tail.take(harness, rest.len()).await.iter().collect::<Vec<_>>(), rest);
    }
}

pub async fn a_watch_resumes_in_the_middle_of_a_step(harness: &Harness) {
    let (gate, key) = (harness.hold(&harness.key("gate"), "op").await, harness.key("t/1"));
    let mut whole = harness.watch(&harness.prefix(), None).await;
    harness
        .write(&[put(&harness.key("a"), "1"), put(&harness.key("b"), "1"), put(&harness.key("c"), "1")])
        .await;
    let held = harness.hold(&key, "ann").await;
    let bob = harness.queue(&key, "bob").await;
    harness.transfer_held(&held, "bob").await;
    bob.granted(harness).await;
    harness.hold(&harness.key("t/2"), "cat").await;
    expect_ok(harness.store().wipe(Wipe { prefix: harness.under("t/"), gate: gate.proof() }).await);
    // Three writes, three grants, one transfer, two wiped: a watch from any of them gets the next.
    let all = whole.take(harness, 9).await;
    for pair in all.windows(2) {
        assert!(pair[0].revision < pair[1].revision, "every event has a place of its own: {pair:?}");
        let mut tail = harness.watch(&harness.prefix(), Some(pair[0].revision)).await;
        assert_eq!(tail.next(harness).await, pair[1]);
    }
}

pub async fn a_resumed_watch_goes_on_with_what_is_new(harness: &Harness) {
    let mut first = harness.watch(&harness.prefix(), None).await;
    churn(harness, &["a"]).await;
    let seen = first.take(harness, 1).await;
    drop(first);
    let mut tail = harness.watch(&harness.prefix(), Some(seen[0].revision)).await;
    assert_eq!(tail.next(harness).await.key, harness.key("a"));
    let held = harness.hold(&harness.key("b"), "bob").await;
    tail.granted(harness, &held).await;
}

pub async fn a_resumed_watch_keeps_to_its_prefix(harness: &Harness) {
    let start = expect_ok(harness.store().list(&Query::new(harness.prefix())).await).revision;
    churn(harness, &["u/1", "t/1", "u/2"]).await;
    let mut tail = harness.watch(&harness.under("t/"), Some(start)).await;
    let keys: Vec<Key> = tail.take(harness, 2).await.into_iter().map(|event| event.key).collect();
    assert_eq!(keys, [harness.key("t/1"), harness.key("t/1")]);
    let held = harness.hold(&harness.key("t/2"), "bob").await;
    tail.granted(harness, &held).await;
}

pub async fn a_watch_of_several_prefixes_sees_each_of_them_in_order_and_nothing_else(harness: &Harness) {
    let start = expect_ok(harness.store().list(&Query::new(harness.prefix())).await).revision;
    let prefixes = [harness.under("t/"), harness.under("v/")];
    let mut fresh = expect_ok(harness.store().watch_any(&prefixes, None).await);
    churn(harness, &["u/1", "v/1", "t/1", "u/2", "t/2"]).await;
    let mut resumed = expect_ok(harness.store().watch_any(&prefixes, Some(start)).await);
    for watch in [&mut fresh, &mut resumed] {
        for name in ["v/1", "v/1", "t/1", "t/1", "t/2", "t/2"] {
            let next = expect_ok(harness.within("the next of a watch", watch.next()).await);
            assert!(
                matches!(&next, Watched::Event(event) if event.key == harness.key(name)),
                "{name}: {next:?}"
            );
        }
    }
}

pub async fn another_handle_may_resume(harness: &Harness) {
    let mut first = harness.watch(&harness.prefix(), None).await;
    churn(harness, &["a", "b"]).await;
    let all = first.take(harness, 4).await;
    let mut second = expect_ok(harness.second().watch(&harness.prefix(), Some(all[1].revision)).await);
    for expected in &all[2..] {
        let next = expect_ok(harness.within("the next of a watch", second.next()).await);
        assert_eq!(next, Watched::Event(expected.clone()));
    }
}

/// Takes and gives back a key a few times, and says under which generations.
async fn reign_often(store: Store, claims: [Claim; 6]) -> (Key, Vec<Generation>) {
    let (key, mut reigns) = (claims[0].key.clone(), Vec::new());
    for claim in claims {
        let release = tenure_lease::Release::new(claim.key.clone(), claim.token.clone());
        let Acquired::Granted(grant) = expect_ok(store.acquire(claim).await) else {
            panic!("no other claim competes")
        };
        reigns.push(grant.lease.generation);
        tokio::task::yield_now().await;
        expect_ok(store.release(release).await);
    }
    (key, reigns)
}

pub async fn a_list_and_a_watch_from_it_miss_nothing(harness: &Harness) {
    let (prefix, mut churning) = (harness.prefix(), tokio::task::JoinSet::new());
    for number in 0..4 {
        let key = harness.key(&format!("k{number}"));
        churning.spawn(reign_often(harness.second(), [(); 6].map(|()| harness.claim(&key, "ann"))));
    }
    tokio::task::yield_now().await;
    let page = expect_ok(harness.store().list(&Query::new(prefix.clone())).await);
    let listed: BTreeMap<Key, _> = page.items.into_iter().map(|s| (s.key, s.generation)).collect();
    let mut tail = harness.watch(&prefix, Some(page.revision)).await;
    let all = harness.within("the churn", churning.join_all()).await;
    let last = harness.hold(&harness.key("last"), "bob").await;
    let mut seen: HashMap<(Key, &str), Vec<_>> = HashMap::new();
    loop {
        let event = tail.next(harness).await;
        if event.key == *last.key() {
            break;
        }
        seen.entry((event.key, event.verb.as_str())).or_default().extend(event.generation);
    }
    for (key, reigns) in all {
        // The list may show more than its revision says, never less: what follows has no gap and an end.
        let begun = seen.remove(&(key.clone(), Verb::Granted.as_str())).unwrap_or_default();
        let ended = seen.remove(&(key.clone(), End::Released.as_str())).unwrap_or_default();
        assert!(reigns.ends_with(&begun) && reigns.ends_with(&ended), "{reigns:?} {begun:?} {ended:?}");
        let shown = listed.get(&key).copied().flatten();
        let after = reigns.iter().filter(|g| shown.is_some_and(|shown| **g > shown)).count();
        assert!(begun.len() >= after, "{reigns:?} after {shown:?}: {begun:?}");
        assert!(ended.len() >= after + usize::from(shown.is_some()), "{reigns:?} after {shown:?}: {ended:?}");
        assert!(ended.len() >= begun.len(), "{begun:?} {ended:?}");
    }
}

pub async fn a_watch_from_a_list_has_the_next_change_first(harness: &Harness) {
    let key = harness.key("k");
    for _ in 0..32 {
        let held = harness.hold(&key, "ann").await;
        let from = expect_ok(harness.store().list(&Query::new(harness.prefix())).await).revision;
        let mut tail = harness.watch(&harness.prefix(), Some(from)).await;
        harness.release_held(&held).await;
        tail.ended(harness, &held, End::Released).await;
    }
}

pub async fn the_revision_of_a_list_rises(harness: &Harness) {
    let query = Query::new(harness.prefix());
    let before = expect_ok(harness.store().list(&query).await).revision;
    churn(harness, &["a"]).await;
    let after = expect_ok(harness.store().list(&query).await).revision;
    assert!(after > before, "{before:?} {after:?}");
}

/// Writes more events than are kept, and says at which revisions.
async fn flood(harness: &Harness) -> Vec<Revision> {
    let keys: Vec<Key> = (0..limits::OPS).map(|number| harness.key(&format!("r{number:02}"))).collect();
    let ops: Vec<_> = keys.iter().map(|key| put(key, "x")).collect();
    let mut revisions = Vec::new();
    for _ in 0..limits::EVENTS / limits::OPS + 8 {
        revisions.push(harness.write(&ops).await);
    }
    revisions
}

/// Asserts that a watch delivers every write, or says that it does not.
async fn assert_no_silent_gap(harness: &Harness, mut tail: Watcher, revisions: &[Revision]) {
    let mut before = Revision::default();
    for revision in revisions {
        for _ in 0..limits::OPS {
            match tail.watched(harness).await {
                Watched::Lagged => return,
                Watched::Event(event) => {
                    let within = before < event.revision && event.revision <= *revision;
                    assert!(within, "a gap without a word before {event:?}");
                }
            }
        }
        before = *revision;
    }
}

pub async fn a_watch_from_an_old_revision_lags(harness: &Harness) {
    let start = expect_ok(harness.store().list(&Query::new(harness.prefix())).await).revision;
    let revisions = flood(harness).await;
    let tail = harness.watch(&harness.prefix(), Some(start)).await;
    assert_no_silent_gap(harness, tail, &revisions).await;
}

pub async fn a_slow_watcher_lags(harness: &Harness) {
    let tail = harness.watch(&harness.prefix(), None).await;
    let revisions = flood(harness).await;
    assert_no_silent_gap(harness, tail, &revisions).await;
}

pub async fn after_a_lag_a_list_and_a_watch_continue(harness: &Harness) {
    let mut tail = harness.watch(&harness.prefix(), None).await;
    flood(harness).await;
    // Whatever the slow watcher gets, a new one from the list's revision sees what follows.
    tail.watched(harness).await;
    let from = expect_ok(harness.store().list(&Query::new(harness.prefix())).await).revision;
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.watch(&harness.prefix(), Some(from)).await.granted(harness, &held).await;
}

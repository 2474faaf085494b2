//! A watch goes on where it was, or says that it cannot.

use std::collections::BTreeMap;

use lease::{Event, Key, Query, Revision, Verb, Watched, limits};

use super::ask::put;
use super::{Tail, World, said};

/// Some changes of leases, one revision each.
async fn churn(world: &World, names: &[&str]) {
    for name in names {
        let held = world.hold(&world.key(name), "ann").await;
        world.give_back(&held).await;
    }
}

pub async fn a_resumed_watch_sees_everything_after_its_revision_once(world: &World) {
    let mut whole = world.watch(&world.prefix(), None).await;
    churn(world, &["a", "b", "a"]).await;
    let all = whole.take(world, 6).await;
    for (place, event) in all.iter().enumerate() {
        let mut tail = world.watch(&world.prefix(), Some(event.revision)).await;
        let rest: Vec<&Event> = all[place + 1..].iter().collect();
        assert_eq!(tail.take(world, rest.len()).await.iter().collect::<Vec<_>>(), rest);
    }
}

pub async fn a_resumed_watch_goes_on_with_what_is_new(world: &World) {
    let mut first = world.watch(&world.prefix(), None).await;
    churn(world, &["a"]).await;
    let seen = first.take(world, 1).await;
    drop(first);
    let mut tail = world.watch(&world.prefix(), Some(seen[0].revision)).await;
    assert_eq!(tail.next(world).await.key, world.key("a"));
    let held = world.hold(&world.key("b"), "bob").await;
    tail.granted(world, &held).await;
}

pub async fn a_resumed_watch_keeps_to_its_prefix(world: &World) {
    let start = said(world.store().list(&Query::new(world.prefix())).await).revision;
    churn(world, &["u/1", "t/1", "u/2"]).await;
    let mut tail = world.watch(&world.under("t/"), Some(start)).await;
    let keys: Vec<Key> = tail.take(world, 2).await.into_iter().map(|event| event.key).collect();
    assert_eq!(keys, [world.key("t/1"), world.key("t/1")]);
    let held = world.hold(&world.key("t/2"), "bob").await;
    tail.granted(world, &held).await;
}

pub async fn another_handle_may_resume(world: &World) {
    let mut first = world.watch(&world.prefix(), None).await;
    churn(world, &["a", "b"]).await;
    let all = first.take(world, 4).await;
    let mut second = said(world.second().watch(&world.prefix(), Some(all[1].revision)).await);
    for expected in &all[2..] {
        let next = said(world.within("the next of a watch", second.next()).await);
        assert_eq!(next, Watched::Event(expected.clone()));
    }
}

pub async fn a_list_and_a_watch_from_it_miss_nothing(world: &World) {
    let (store, prefix) = (world.store(), world.prefix());
    let keys: Vec<Key> = (0..4).map(|number| world.key(&format!("k{number}"))).collect();
    let mut churning = tokio::task::JoinSet::new();
    for key in keys.clone() {
        let (store, claims) = (world.second(), [(); 6].map(|()| world.claim(&key, "ann")));
        churning.spawn(async move {
            for claim in claims {
                let release = lease::Release::new(claim.key.clone(), claim.token.clone());
                said(store.acquire(claim).await);
                tokio::task::yield_now().await;
                said(store.release(release).await);
            }
        });
    }
    tokio::task::yield_now().await;
    let page = said(store.list(&Query::new(prefix.clone())).await);
    let mut held: BTreeMap<Key, _> = page.items.into_iter().map(|s| (s.key, s.generation)).collect();
    let mut tail = world.watch(&prefix, Some(page.revision)).await;
    while let Some(done) = world.within("the churn", churning.join_next()).await {
        assert!(done.is_ok(), "{done:?}");
    }
    let last = world.hold(&world.key("last"), "bob").await;
    loop {
        let event = tail.next(world).await;
        match event.verb {
            _ if event.key == *last.key() => break,
            Verb::Granted => assert_eq!(held.insert(event.key, event.generation), None),
            Verb::Ended(_) => assert_eq!(held.remove(&event.key), Some(event.generation)),
            other => panic!("no record was written: {other:?}"),
        }
    }
    assert!(held.is_empty(), "every reign ended: {held:?}");
}

pub async fn the_revision_of_a_list_rises(world: &World) {
    let query = Query::new(world.prefix());
    let before = said(world.store().list(&query).await).revision;
    churn(world, &["a"]).await;
    let after = said(world.store().list(&query).await).revision;
    assert!(after > before, "{before:?} {after:?}");
}

/// Writes more events than are kept, and says at which revisions.
async fn flood(world: &World) -> Vec<Revision> {
    let keys: Vec<Key> = (0..limits::OPS).map(|number| world.key(&format!("r{number:02}"))).collect();
    let ops: Vec<_> = keys.iter().map(|key| put(key, "x")).collect();
    let mut revisions = Vec::new();
    for _ in 0..limits::EVENTS / limits::OPS + 8 {
        revisions.push(world.write(&ops).await);
    }
    revisions
}

/// Asserts that a watch delivers every write, or says that it does not.
async fn assert_no_silent_gap(world: &World, mut tail: Tail, revisions: &[Revision]) {
    for revision in revisions {
        for _ in 0..limits::OPS {
            match tail.watched(world).await {
                Watched::Event(event) => assert_eq!(event.revision, *revision, "a gap without a word"),
                Watched::Lagged => return,
            }
        }
    }
}

pub async fn a_watch_from_long_ago_says_that_it_lagged(world: &World) {
    let start = said(world.store().list(&Query::new(world.prefix())).await).revision;
    let revisions = flood(world).await;
    let tail = world.watch(&world.prefix(), Some(start)).await;
    assert_no_silent_gap(world, tail, &revisions).await;
}

pub async fn a_slow_watcher_is_told_that_it_lagged(world: &World) {
    let tail = world.watch(&world.prefix(), None).await;
    let revisions = flood(world).await;
    assert_no_silent_gap(world, tail, &revisions).await;
}

pub async fn after_a_lag_list_and_watch_go_on(world: &World) {
    let mut tail = world.watch(&world.prefix(), None).await;
    flood(world).await;
    // Whatever the slow watcher is told, a new one from the list's revision sees what follows.
    tail.watched(world).await;
    let from = said(world.store().list(&Query::new(world.prefix())).await).revision;
    let held = world.hold(&world.key("k"), "ann").await;
    world.watch(&world.prefix(), Some(from)).await.granted(world, &held).await;
}

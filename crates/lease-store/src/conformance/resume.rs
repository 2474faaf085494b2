//! A watch goes on where it was, or says that it cannot.

use std::collections::{BTreeMap, HashMap};

use lease::{Acquired, Claim, End, Event, Generation, Key, Query, Revision, Verb, Watched, Wipe, limits};

use super::ask::put;
use super::{Tail, World, said};
use crate::Store;

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

pub async fn a_watch_resumes_in_the_middle_of_a_step(world: &World) {
    let (gate, key) = (world.hold(&world.key("gate"), "op").await, world.key("t/1"));
    let mut whole = world.watch(&world.prefix(), None).await;
    world.write(&[put(&world.key("a"), "1"), put(&world.key("b"), "1"), put(&world.key("c"), "1")]).await;
    let held = world.hold(&key, "ann").await;
    let bob = world.queue(&key, "bob").await;
    world.hand_over(&held, "bob").await;
    bob.granted(world).await;
    world.hold(&world.key("t/2"), "cat").await;
    said(world.store().wipe(Wipe { prefix: world.under("t/"), gate: gate.proof() }).await);
    // Three writes, three grants, one transfer, two wiped: whoever saw one of them gets the next.
    let all = whole.take(world, 9).await;
    for pair in all.windows(2) {
        assert!(pair[0].revision < pair[1].revision, "every event has a place of its own: {pair:?}");
        let mut tail = world.watch(&world.prefix(), Some(pair[0].revision)).await;
        assert_eq!(tail.next(world).await, pair[1]);
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

pub async fn a_watch_of_several_prefixes_sees_each_of_them_in_order_and_nothing_else(world: &World) {
    let start = said(world.store().list(&Query::new(world.prefix())).await).revision;
    let prefixes = [world.under("t/"), world.under("v/")];
    let mut fresh = said(world.store().watch_any(&prefixes, None).await);
    churn(world, &["u/1", "v/1", "t/1", "u/2", "t/2"]).await;
    let mut resumed = said(world.store().watch_any(&prefixes, Some(start)).await);
    for watch in [&mut fresh, &mut resumed] {
        for name in ["v/1", "v/1", "t/1", "t/1", "t/2", "t/2"] {
            let next = said(world.within("the next of a watch", watch.next()).await);
            assert!(
                matches!(&next, Watched::Event(event) if event.key == world.key(name)),
                "{name}: {next:?}"
            );
        }
    }
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

/// Takes and gives back a key a few times, and says under which generations.
async fn reign_often(store: Store, claims: [Claim; 6]) -> (Key, Vec<Generation>) {
    let (key, mut reigns) = (claims[0].key.clone(), Vec::new());
    for claim in claims {
        let release = lease::Release::new(claim.key.clone(), claim.token.clone());
        let Acquired::Granted(grant) = said(store.acquire(claim).await) else { panic!("nobody else asks") };
        reigns.push(grant.lease.generation);
        tokio::task::yield_now().await;
        said(store.release(release).await);
    }
    (key, reigns)
}

pub async fn a_list_and_a_watch_from_it_miss_nothing(world: &World) {
    let (prefix, mut churning) = (world.prefix(), tokio::task::JoinSet::new());
    for number in 0..4 {
        let key = world.key(&format!("k{number}"));
        churning.spawn(reign_often(world.second(), [(); 6].map(|()| world.claim(&key, "ann"))));
    }
    tokio::task::yield_now().await;
    let page = said(world.store().list(&Query::new(prefix.clone())).await);
    let listed: BTreeMap<Key, _> = page.items.into_iter().map(|s| (s.key, s.generation)).collect();
    let mut tail = world.watch(&prefix, Some(page.revision)).await;
    let all = world.within("the churn", churning.join_all()).await;
    let last = world.hold(&world.key("last"), "bob").await;
    let mut seen: HashMap<(Key, &str), Vec<_>> = HashMap::new();
    loop {
        let event = tail.next(world).await;
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

pub async fn a_watch_from_a_list_has_the_next_change_first(world: &World) {
    let key = world.key("k");
    for _ in 0..32 {
        let held = world.hold(&key, "ann").await;
        let from = said(world.store().list(&Query::new(world.prefix())).await).revision;
        let mut tail = world.watch(&world.prefix(), Some(from)).await;
        world.give_back(&held).await;
        tail.ended(world, &held, End::Released).await;
    }
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
    let mut before = Revision::default();
    for revision in revisions {
        for _ in 0..limits::OPS {
            match tail.watched(world).await {
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

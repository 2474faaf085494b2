//! News that a lease allows, and records of any writer.

use lease::{Announcement, Fence, Key, Mode, Record};

use super::ask::put;
use super::{Held, World, refused, said};

fn news(world: &World, fence: Fence, text: &str) -> Announcement {
    Announcement {
        fence,
        channel: world.key("channel"),
        message: text.as_bytes().into(),
        latest: world.key("latest"),
        ttl: world.long_ttl(),
        log: world.key("log"),
        max_len: 2,
    }
}

async fn announce(world: &World, items: &[Announcement]) -> Vec<bool> {
    said(world.store().announce(items).await)
}

async fn log(world: &World) -> Vec<String> {
    let entries = world.log(&world.key("log")).await;
    entries.iter().map(|entry| String::from_utf8_lossy(&entry.value).into_owned()).collect()
}

pub async fn the_holder_s_news_is_kept(world: &World) {
    let fence = world.hold(&world.key("k"), "ann").await.fence(Mode::Strict);
    for text in ["1", "2", "3"] {
        assert_eq!(announce(world, &[news(world, fence.clone(), text)]).await, [true]);
    }
    world.assert_record(&world.key("latest"), Some("3")).await;
    assert_eq!(log(world).await, ["2", "3"]);
    assert_eq!(world.log(&world.key("log")).await.last().map(|entry| entry.seq), Some(3));
}

async fn assert_refused(world: &World, held: &Held) {
    let item = news(world, held.fence(Mode::Monotonic), "late");
    assert_eq!(announce(world, &[item]).await, [false]);
    world.assert_record(&world.key("latest"), None).await;
    assert_eq!(log(world).await, Vec::<String>::new());
}

pub async fn nothing_is_announced_after_a_release(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.give_back(&held).await;
    assert_refused(world, &held).await;
}

pub async fn nothing_is_announced_after_an_expiry(world: &World) {
    let held = world.hold_briefly(&world.key("k"), "ann").await;
    world.outlive(held.lease.ttl).await;
    assert_refused(world, &held).await;
}

pub async fn an_older_owner_s_news_is_refused_beside_the_new_one_s(world: &World) {
    let old = world.hold(&world.key("k"), "ann").await;
    let new = world.replace(&old, "bob").await;
    let items = [news(world, old.fence(Mode::Strict), "old"), news(world, new.fence(Mode::Strict), "new")];
    assert_eq!(announce(world, &items).await, [false, true]);
    world.assert_record(&world.key("latest"), Some("new")).await;
    assert_eq!(log(world).await, ["new"]);
}

pub async fn news_does_not_overwrite_a_lease(world: &World) {
    let ann = world.hold(&world.key("k"), "ann").await;
    let bob = world.hold(&world.key("latest"), "bob").await;
    let error = refused(world.store().announce(&[news(world, ann.fence(Mode::Strict), "1")]).await);
    assert!(matches!(error, lease::Error::Refused(lease::Refusal::KeyIsLeased { .. })), "{error}");
    world.assert_live(&bob).await;
    assert_eq!(log(world).await, Vec::<String>::new());
    world.give_back(&bob).await;
    assert_eq!(announce(world, &[news(world, ann.fence(Mode::Strict), "2")]).await, [true]);
    world.assert_record(&world.key("latest"), Some("2")).await;
}

pub async fn news_keeps_an_older_owner_s_writes_out(world: &World) {
    let old = world.hold(&world.key("k"), "ann").await;
    let new = world.replace(&old, "bob").await;
    assert_eq!(announce(world, &[news(world, new.fence(Mode::Strict), "new")]).await, [true]);
    let late = world.store().write_fenced(&old.fence(Mode::Monotonic), &[put(&world.key("r"), "old")]).await;
    assert_eq!(said(late), lease::Committed::FencedOut { current: Some(new.generation()) });
}

async fn discovered(world: &World, under: &str) -> Vec<Record> {
    said(world.store().discover(&world.under(under)).await)
}

pub async fn a_discovery_finds_every_record_under_its_prefix_in_order(world: &World) {
    let mut expected: Vec<Key> = (0..150).map(|i| world.key(&format!("t/{i}"))).collect();
    for part in expected.chunks(50) {
        let ops: Vec<_> = part.iter().map(|key| put(key, "1")).collect();
        world.write(&ops).await;
    }
    for name in ["t", "ta", "u/1"] {
        world.put(&world.key(name), "1").await;
    }
    expected.sort();
    let found: Vec<Key> = discovered(world, "t/").await.into_iter().map(|record| record.key).collect();
    assert_eq!(found, expected);
    assert_eq!(discovered(world, "none").await, []);
}

pub async fn a_discovery_shows_values_and_revisions_and_no_leases(world: &World) {
    let key = world.key("d/r");
    world.put(&key, "value").await;
    world.hold(&world.key("d/held"), "ann").await;
    let expected = world.get(&key).await.map(|record| Record { remaining: None, ..record });
    assert_eq!(discovered(world, "d/").await.pop(), expected);
    assert_eq!(discovered(world, "d/").await.len(), 1);
}

pub async fn a_prefix_with_signs_of_a_pattern_means_itself(world: &World) {
    for name in ["p*/1", "p[a]/1", "pq/1", "pa/1"] {
        world.put(&world.key(name), "1").await;
    }
    let keys = |records: Vec<Record>| records.into_iter().map(|record| record.key).collect::<Vec<_>>();
    assert_eq!(keys(discovered(world, "p*").await), [world.key("p*/1")]);
    assert_eq!(keys(discovered(world, "p[a]").await), [world.key("p[a]/1")]);
}

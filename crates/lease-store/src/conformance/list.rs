//! The keys that are not free.

use std::time::Duration;

use lease::{Key, Phase, Prefix, Query, Status};

use super::{World, said};

async fn keys(world: &World, prefix: Prefix) -> Vec<Key> {
    let page = said(world.store().list(&Query::new(prefix)).await);
    assert_eq!(page.next, None);
    page.items.into_iter().map(|status| status.key).collect()
}

pub async fn a_list_is_ordered_by_key(world: &World) {
    let names = ["c", "a/2", "b", "a/10", "a"];
    let mut expected: Vec<_> = names.iter().map(|name| world.key(name)).collect();
    for key in &expected {
        world.hold(key, "ann").await;
    }
    expected.sort();
    assert_eq!(keys(world, world.prefix()).await, expected);
}

pub async fn a_list_shows_what_inspect_shows(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let _bob = world.queue(held.key(), "bob").await;
    let page = said(world.store().list(&Query::new(world.prefix())).await);
    let [listed] = &page.items[..] else { panic!("one key is held: {page:?}") };
    let one = Status { remaining: listed.remaining, ..world.inspect(held.key()).await };
    assert_eq!(*listed, one);
    assert!(listed.remaining.is_some());
}

pub async fn a_list_keeps_to_its_prefix(world: &World) {
    for name in ["t/1", "t/2", "t", "u/1", "ta"] {
        world.hold(&world.key(name), "ann").await;
    }
    assert_eq!(keys(world, world.under("t/")).await, [world.key("t/1"), world.key("t/2")]);
}

pub async fn a_list_leaves_out_what_is_free(world: &World) {
    let released = world.hold(&world.key("a"), "ann").await;
    let expired = world.hold_briefly(&world.key("b"), "ann").await;
    let held = world.hold(&world.key("c"), "ann").await;
    world.give_back(&released).await;
    world.outlive(expired.lease.ttl).await;
    assert_eq!(keys(world, world.prefix()).await, [held.key().clone()]);
}

pub async fn a_list_shows_delays_and_reservations(world: &World) {
    let delayed = world.hold(&world.key("a"), "ann").await;
    let reserved = world.hold(&world.key("b"), "ann").await;
    world.revoke(&delayed, Some(Duration::from_secs(20))).await;
    said(world.store().release(reserved.giving(Some(world.holder("bob")))).await);
    let page = said(world.store().list(&Query::new(world.prefix())).await);
    let phases: Vec<_> = page.items.iter().map(|status| (&status.key, status.phase)).collect();
    assert_eq!(phases, [(delayed.key(), Phase::Delayed), (reserved.key(), Phase::Reserved)]);
}

pub async fn pages_show_every_key_once(world: &World) {
    let mut expected = Vec::new();
    for number in 0..10 {
        let key = world.key(&format!("k{number}"));
        world.hold(&key, "ann").await;
        expected.push(key);
    }
    for limit in [1, 3, 5, 10, 11] {
        let mut query = Query { limit, ..Query::new(world.prefix()) };
        let mut seen = Vec::new();
        loop {
            let page = said(world.store().list(&query).await);
            assert!(page.items.len() <= limit, "a page of {limit}");
            seen.extend(page.items.into_iter().map(|status| status.key));
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
            assert!(seen.len() <= expected.len(), "pages come to an end: {seen:?}");
        }
        assert_eq!(seen, expected, "in pages of {limit}");
    }
}

pub async fn a_page_begins_after_a_key_that_need_not_exist(world: &World) {
    for name in ["a", "c"] {
        world.hold(&world.key(name), "ann").await;
    }
    let query = Query { after: Some(world.key("b")), ..Query::new(world.prefix()) };
    let page = said(world.store().list(&query).await);
    let seen: Vec<_> = page.items.into_iter().map(|status| status.key).collect();
    assert_eq!(seen, [world.key("c")]);
}

pub async fn nothing_held_is_an_empty_page(world: &World) {
    assert_eq!(keys(world, world.prefix()).await, []);
}

pub async fn records_are_not_listed_as_leases(world: &World) {
    world.put(&world.key("a"), "1").await;
    let held = world.hold(&world.key("b"), "ann").await;
    assert_eq!(keys(world, world.prefix()).await, [held.key().clone()]);
}

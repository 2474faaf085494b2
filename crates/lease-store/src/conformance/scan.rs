//! Records, listed.

use lease::{Key, Op, Prefix, Query};

use super::ask::{bytes, put};
use super::{World, said};

async fn keys(world: &World, prefix: Prefix) -> Vec<Key> {
    let page = said(world.store().scan(&Query::new(prefix)).await);
    assert_eq!(page.next, None);
    page.items.into_iter().map(|record| record.key).collect()
}

pub async fn a_scan_is_ordered_by_key(world: &World) {
    let mut expected: Vec<_> = ["c", "a/2", "b", "a/10", "a"].iter().map(|name| world.key(name)).collect();
    for key in &expected {
        world.put(key, "1").await;
    }
    expected.sort();
    assert_eq!(keys(world, world.prefix()).await, expected);
}

pub async fn a_scan_shows_what_get_shows(world: &World) {
    let key = world.key("r");
    world.put(&key, "value").await;
    let page = said(world.store().scan(&Query::new(world.prefix())).await);
    assert_eq!(page.items.first().cloned(), world.get(&key).await);
}

pub async fn a_scan_keeps_to_its_prefix(world: &World) {
    for name in ["t/1", "t/2", "t", "u/1", "ta"] {
        world.put(&world.key(name), "1").await;
    }
    assert_eq!(keys(world, world.under("t/")).await, [world.key("t/1"), world.key("t/2")]);
}

pub async fn a_scan_leaves_out_what_is_gone(world: &World) {
    let (a, b, c) = (world.key("a"), world.key("b"), world.key("c"));
    world.write(&[put(&a, "1"), put(&c, "1")]).await;
    world.write(&[Op::Put { key: b, value: bytes("1"), ttl: Some(world.ttl()) }]).await;
    world.write(&[Op::Delete { key: a }]).await;
    world.outlive(world.ttl()).await;
    assert_eq!(keys(world, world.prefix()).await, [c]);
}

pub async fn leases_are_not_scanned_as_records(world: &World) {
    world.hold(&world.key("a"), "ann").await;
    world.put(&world.key("b"), "1").await;
    assert_eq!(keys(world, world.prefix()).await, [world.key("b")]);
}

pub async fn a_lease_is_not_read_as_a_record(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.assert_record(held.key(), None).await;
}

pub async fn pages_show_every_record_once(world: &World) {
    let expected: Vec<_> = (0..10).map(|number| world.key(&format!("r{number}"))).collect();
    let ops: Vec<_> = expected.iter().map(|key| put(key, "1")).collect();
    world.write(&ops).await;
    for limit in [1, 3, 5, 10, 11] {
        let mut query = Query { limit, ..Query::new(world.prefix()) };
        let mut seen = Vec::new();
        loop {
            let page = said(world.store().scan(&query).await);
            assert!(page.items.len() <= limit, "a page of {limit}");
            seen.extend(page.items.into_iter().map(|record| record.key));
            match page.next {
                Some(next) => query.after = Some(next),
                None => break,
            }
            assert!(seen.len() <= expected.len(), "pages come to an end: {seen:?}");
        }
        assert_eq!(seen, expected, "in pages of {limit}");
    }
}

pub async fn the_revision_of_a_scan_includes_what_it_shows(world: &World) {
    let revision = world.put(&world.key("r"), "1").await;
    let page = said(world.store().scan(&Query::new(world.prefix())).await);
    assert!(page.revision >= revision, "{:?} {revision:?}", page.revision);
}

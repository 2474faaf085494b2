//! Records, listed.

use tenure_lease::{Key, Op, Prefix, Query};

use super::verbs::{bytes, put};
use super::{Harness, expect_ok};

async fn keys(harness: &Harness, prefix: Prefix) -> Vec<Key> {
    let page = expect_ok(harness.store().scan(&Query::new(prefix)).await);
    assert_eq!(page.next, None);
    page.items.into_iter().map(|record| record.key).collect()
}

pub async fn a_scan_is_ordered_by_key(harness: &Harness) {
    let mut expected: Vec<_> = ["c", "a/2", "b", "a/10", "a"].iter().map(|name| harness.key(name)).collect();
    for key in &expected {
        harness.put(key, "1").await;
    }
    expected.sort();
    assert_eq!(keys(harness, harness.prefix()).await, expected);
}

pub async fn a_scan_shows_what_get_shows(harness: &Harness) {
    let key = harness.key("r");
    harness.put(&key, "value").await;
    let page = expect_ok(harness.store().scan(&Query::new(harness.prefix())).await);
    assert_eq!(page.items.first().cloned(), harness.get(&key).await);
}

pub async fn a_scan_keeps_to_its_prefix(harness: &Harness) {
    for name in ["t/1", "t/2", "t", "u/1", "ta"] {
        harness.put(&harness.key(name), "1").await;
    }
    assert_eq!(keys(harness, harness.under("t/")).await, [harness.key("t/1"), harness.key("t/2")]);
}

pub async fn a_scan_omits_deleted_records(harness: &Harness) {
    let (a, b, c) = (harness.key("a"), harness.key("b"), harness.key("c"));
    harness.write(&[put(&a, "1"), put(&c, "1")]).await;
    harness.write(&[Op::Put { key: b, value: bytes("1"), ttl: Some(harness.ttl()) }]).await;
    harness.write(&[Op::Delete { key: a }]).await;
    harness.outlive(harness.ttl()).await;
    assert_eq!(keys(harness, harness.prefix()).await, [c]);
}

pub async fn leases_are_not_scanned_as_records(harness: &Harness) {
    harness.hold(&harness.key("a"), "ann").await;
    harness.put(&harness.key("b"), "1").await;
    assert_eq!(keys(harness, harness.prefix()).await, [harness.key("b")]);
}

pub async fn a_lease_is_not_read_as_a_record(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.assert_record(held.key(), None).await;
}

pub async fn pages_show_every_record_once(harness: &Harness) {
    let expected: Vec<_> = (0..10).map(|number| harness.key(&format!("r{number}"))).collect();
    let ops: Vec<_> = expected.iter().map(|key| put(key, "1")).collect();
    harness.write(&ops).await;
    for limit in [1, 3, 5, 10, 11] {
        let mut query = Query { limit, ..Query::new(harness.prefix()) };
        let mut seen = Vec::new();
        loop {
            let page = expect_ok(harness.store().scan(&query).await);
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

pub async fn the_revision_of_a_scan_includes_what_it_shows(harness: &Harness) {
    let revision = harness.put(&harness.key("r"), "1").await;
    let page = expect_ok(harness.store().scan(&Query::new(harness.prefix())).await);
    assert!(page.revision >= revision, "{:?} {revision:?}", page.revision);
}

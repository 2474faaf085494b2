//! The keys that are not free.

use std::time::Duration;

use tenure_lease::{Key, Phase, Prefix, Query, Status};

use super::{Harness, expect_ok};

async fn keys(harness: &Harness, prefix: Prefix) -> Vec<Key> {
    let page = expect_ok(harness.store().list(&Query::new(prefix)).await);
    assert_eq!(page.next, None);
    page.items.into_iter().map(|status| status.key).collect()
}

pub async fn a_list_is_ordered_by_key(harness: &Harness) {
    let names = ["c", "a/2", "b", "a/10", "a"];
    let mut expected: Vec<_> = names.iter().map(|name| harness.key(name)).collect();
    for key in &expected {
        harness.hold(key, "ann").await;
    }
    expected.sort();
    assert_eq!(keys(harness, harness.prefix()).await, expected);
}

pub async fn a_list_shows_what_inspect_shows(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let _bob = harness.queue(held.key(), "bob").await;
    let page = expect_ok(harness.store().list(&Query::new(harness.prefix())).await);
    let [listed] = &page.items[..] else { panic!("one key is held: {page:?}") };
    let one = Status { remaining: listed.remaining, ..harness.inspect(held.key()).await };
    assert_eq!(*listed, one);
    assert!(listed.remaining.is_some());
}

pub async fn a_list_keeps_to_its_prefix(harness: &Harness) {
    for name in ["t/1", "t/2", "t", "u/1", "ta"] {
        harness.hold(&harness.key(name), "ann").await;
    }
    assert_eq!(keys(harness, harness.under("t/")).await, [harness.key("t/1"), harness.key("t/2")]);
}

pub async fn a_list_omits_free_keys(harness: &Harness) {
    let released = harness.hold(&harness.key("a"), "ann").await;
    let expired = harness.hold_briefly(&harness.key("b"), "ann").await;
    let held = harness.hold(&harness.key("c"), "ann").await;
    harness.release_held(&released).await;
    harness.outlive(expired.lease.ttl).await;
    assert_eq!(keys(harness, harness.prefix()).await, [held.key().clone()]);
}

pub async fn a_list_shows_delays_and_reservations(harness: &Harness) {
    let delayed = harness.hold(&harness.key("a"), "ann").await;
    let reserved = harness.hold(&harness.key("b"), "ann").await;
    harness.revoke(&delayed, Some(Duration::from_secs(20))).await;
    expect_ok(harness.store().release(reserved.release(Some(harness.holder("bob")))).await);
    let page = expect_ok(harness.store().list(&Query::new(harness.prefix())).await);
    let phases: Vec<_> = page.items.iter().map(|status| (&status.key, status.phase)).collect();
    assert_eq!(phases, [(delayed.key(), Phase::Delayed), (reserved.key(), Phase::Reserved)]);
}

pub async fn pages_show_every_key_once(harness: &Harness) {
    let mut expected = Vec::new();
    for number in 0..10 {
        let key = harness.key(&format!("k{number}"));
        harness.hold(&key, "ann").await;
        expected.push(key);
    }
    for limit in [1, 3, 5, 10, 11] {
        let mut query = Query { limit, ..Query::new(harness.prefix()) };
        let mut seen = Vec::new();
        loop {
            let page = expect_ok(harness.store().list(&query).await);
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

pub async fn a_page_begins_after_a_key_that_need_not_exist(harness: &Harness) {
    for name in ["a", "c"] {
        harness.hold(&harness.key(name), "ann").await;
    }
    let query = Query { after: Some(harness.key("b")), ..Query::new(harness.prefix()) };
    let page = expect_ok(harness.store().list(&query).await);
    let seen: Vec<_> = page.items.into_iter().map(|status| status.key).collect();
    assert_eq!(seen, [harness.key("c")]);
}

pub async fn without_leases_a_page_is_empty(harness: &Harness) {
    assert_eq!(keys(harness, harness.prefix()).await, []);
}

pub async fn records_are_not_listed_as_leases(harness: &Harness) {
    harness.put(&harness.key("a"), "1").await;
    let held = harness.hold(&harness.key("b"), "ann").await;
    assert_eq!(keys(harness, harness.prefix()).await, [held.key().clone()]);
}

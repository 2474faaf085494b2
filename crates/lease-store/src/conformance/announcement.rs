//! News that a lease allows, and records of any writer.

use tenure_lease::{Announcement, Fence, Key, Mode, Record};

use super::verbs::put;
use super::{Harness, HeldLease, expect_ok, expect_refusal};

fn announcement(harness: &Harness, fence: Fence, text: &str) -> Announcement {
    Announcement {
        fence,
        channel: harness.key("channel"),
        message: text.as_bytes().into(),
        latest: harness.key("latest"),
        ttl: harness.long_ttl(),
        log: harness.key("log"),
        max_len: 2,
    }
}

async fn announce(harness: &Harness, items: &[Announcement]) -> Vec<bool> {
    expect_ok(harness.store().announce(items).await)
}

async fn log(harness: &Harness) -> Vec<String> {
    let entries = harness.log(&harness.key("log")).await;
    entries.iter().map(|entry| String::from_utf8_lossy(&entry.value).into_owned()).collect()
}

pub async fn an_announcement_of_the_holder_is_stored(harness: &Harness) {
    let fence = harness.hold(&harness.key("k"), "ann").await.fence(Mode::Strict);
    for text in ["1", "2", "3"] {
        assert_eq!(announce(harness, &[announcement(harness, fence.clone(), text)]).await, [true]);
    }
    harness.assert_record(&harness.key("latest"), Some("3")).await;
    assert_eq!(log(harness).await, ["2", "3"]);
    assert_eq!(harness.log(&harness.key("log")).await.last().map(|entry| entry.seq), Some(3));
}

async fn assert_refused(harness: &Harness, held: &HeldLease) {
    let item = announcement(harness, held.fence(Mode::Monotonic), "late");
    assert_eq!(announce(harness, &[item]).await, [false]);
    harness.assert_record(&harness.key("latest"), None).await;
    assert_eq!(log(harness).await, Vec::<String>::new());
}

pub async fn nothing_is_announced_after_a_release(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.release_held(&held).await;
    assert_refused(harness, &held).await;
}

pub async fn nothing_is_announced_after_an_expiry(harness: &Harness) {
    let held = harness.hold_briefly(&harness.key("k"), "ann").await;
    harness.outlive(held.lease.ttl).await;
    assert_refused(harness, &held).await;
}

pub async fn an_announcement_of_an_older_owner_is_refused(harness: &Harness) {
    let old = harness.hold(&harness.key("k"), "ann").await;
    let new = harness.replace(&old, "bob").await;
    let items = [
        announcement(harness, old.fence(Mode::Strict), "old"),
        announcement(harness, new.fence(Mode::Strict), "new"),
    ];
    assert_eq!(announce(harness, &items).await, [false, true]);
    harness.assert_record(&harness.key("latest"), Some("new")).await;
    assert_eq!(log(harness).await, ["new"]);
}

pub async fn an_announcement_does_not_overwrite_a_lease(harness: &Harness) {
    let ann = harness.hold(&harness.key("k"), "ann").await;
    let bob = harness.hold(&harness.key("latest"), "bob").await;
    let error = expect_refusal(
        harness.store().announce(&[announcement(harness, ann.fence(Mode::Strict), "1")]).await,
    );
    assert!(
        matches!(error, tenure_lease::Error::Refused(tenure_lease::Refusal::KeyIsLeased { .. })),
        "{error}"
    );
    harness.assert_live(&bob).await;
    assert_eq!(log(harness).await, Vec::<String>::new());
    harness.release_held(&bob).await;
    assert_eq!(announce(harness, &[announcement(harness, ann.fence(Mode::Strict), "2")]).await, [true]);
    harness.assert_record(&harness.key("latest"), Some("2")).await;
}

pub async fn an_announcement_raises_the_high_water_mark(harness: &Harness) {
    let old = harness.hold(&harness.key("k"), "ann").await;
    let new = harness.replace(&old, "bob").await;
    assert_eq!(announce(harness, &[announcement(harness, new.fence(Mode::Strict), "new")]).await, [true]);
    let late =
        harness.store().write_fenced(&old.fence(Mode::Monotonic), &[put(&harness.key("r"), "old")]).await;
    assert_eq!(expect_ok(late), tenure_lease::Committed::FencedOut { current: Some(new.generation()) });
}

async fn discovered(harness: &Harness, under: &str) -> Vec<Record> {
    expect_ok(harness.store().discover(&harness.under(under)).await)
}

pub async fn a_discovery_finds_every_record_under_its_prefix_in_order(harness: &Harness) {
    let mut expected: Vec<Key> = (0..150).map(|i| harness.key(&format!("t/{i}"))).collect();
    for part in expected.chunks(50) {
        let ops: Vec<_> = part.iter().map(|key| put(key, "1")).collect();
        harness.write(&ops).await;
    }
    for name in ["t", "ta", "u/1"] {
        harness.put(&harness.key(name), "1").await;
    }
    expected.sort();
    let found: Vec<Key> = discovered(harness, "t/").await.into_iter().map(|record| record.key).collect();
    assert_eq!(found, expected);
    assert_eq!(discovered(harness, "none").await, []);
}

pub async fn a_discovery_shows_values_and_revisions_and_no_leases(harness: &Harness) {
    let key = harness.key("d/r");
    harness.put(&key, "value").await;
    harness.hold(&harness.key("d/held"), "ann").await;
    let expected = harness.get(&key).await.map(|record| Record { remaining: None, ..record });
    assert_eq!(discovered(harness, "d/").await.pop(), expected);
    assert_eq!(discovered(harness, "d/").await.len(), 1);
}

pub async fn a_prefix_with_glob_characters_is_literal(harness: &Harness) {
    for name in ["p*/1", "p[a]/1", "pq/1", "pa/1"] {
        harness.put(&harness.key(name), "1").await;
    }
    let keys = |records: Vec<Record>| records.into_iter().map(|record| record.key).collect::<Vec<_>>();
    assert_eq!(keys(discovered(harness, "p*").await), [harness.key("p*/1")]);
    assert_eq!(keys(discovered(harness, "p[a]").await), [harness.key("p[a]/1")]);
}

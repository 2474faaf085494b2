//! Logs: entries in order, the oldest dropped.

use tenure_lease::{Key, LogEntry};

use super::verbs::{append, put};
use super::{Harness, expect_ok};

#[track_caller]
fn assert_entries(entries: &[LogEntry], expected: &[(u64, &str)]) {
    let seen: Vec<_> =
        entries.iter().map(|entry| (entry.seq, String::from_utf8_lossy(&entry.value))).collect();
    let seen: Vec<_> = seen.iter().map(|(seq, value)| (*seq, &**value)).collect();
    assert_eq!(seen, expected);
}

async fn fill(harness: &Harness, log: &Key, count: u64, max_len: usize) {
    for number in 1..=count {
        harness.write(&[append(log, &format!("e{number}"), max_len)]).await;
    }
}

pub async fn a_log_that_was_never_written_is_empty(harness: &Harness) {
    assert_entries(&harness.log(&harness.key("log")).await, &[]);
}

pub async fn entries_are_numbered_from_one(harness: &Harness) {
    let log = harness.key("log");
    fill(harness, &log, 3, 10).await;
    assert_entries(&harness.log(&log).await, &[(1, "e1"), (2, "e2"), (3, "e3")]);
}

pub async fn a_log_keeps_its_newest_entries(harness: &Harness) {
    let log = harness.key("log");
    fill(harness, &log, 5, 3).await;
    assert_entries(&harness.log(&log).await, &[(3, "e3"), (4, "e4"), (5, "e5")]);
}

pub async fn a_log_is_truncated_by_the_last_append(harness: &Harness) {
    let log = harness.key("log");
    fill(harness, &log, 5, 10).await;
    harness.write(&[append(&log, "e6", 2)]).await;
    assert_entries(&harness.log(&log).await, &[(5, "e5"), (6, "e6")]);
}

pub async fn a_log_is_read_after_a_number(harness: &Harness) {
    let log = harness.key("log");
    fill(harness, &log, 4, 10).await;
    let read = async |after, limit| expect_ok(harness.store().read_log(&log, after, limit).await);
    assert_entries(&read(2, 10).await, &[(3, "e3"), (4, "e4")]);
    assert_entries(&read(1, 2).await, &[(2, "e2"), (3, "e3")]);
    assert_entries(&read(4, 10).await, &[]);
    assert_entries(&read(40, 10).await, &[]);
}

pub async fn a_log_is_read_from_the_oldest_kept(harness: &Harness) {
    let log = harness.key("log");
    fill(harness, &log, 5, 2).await;
    assert_entries(&expect_ok(harness.store().read_log(&log, 1, 10).await), &[(4, "e4"), (5, "e5")]);
}

pub async fn one_commit_may_append_more_than_once(harness: &Harness) {
    let (log, other) = (harness.key("log"), harness.key("other"));
    harness.write(&[append(&log, "a", 10), append(&other, "x", 10), append(&log, "b", 10)]).await;
    assert_entries(&harness.log(&log).await, &[(1, "a"), (2, "b")]);
    assert_entries(&harness.log(&other).await, &[(1, "x")]);
}

pub async fn an_append_goes_with_its_commit(harness: &Harness) {
    let (log, record) = (harness.key("log"), harness.key("r"));
    harness.write(&[put(&record, "1"), append(&log, "a", 10)]).await;
    harness.assert_record(&record, Some("1")).await;
    assert_entries(&expect_ok(harness.second().read_log(&log, 0, 10).await), &[(1, "a")]);
}

//! Logs: entries in order, the oldest dropped.

use lease::{Key, LogEntry};

use super::ask::{append, put};
use super::{World, said};

#[track_caller]
fn assert_entries(entries: &[LogEntry], expected: &[(u64, &str)]) {
    let seen: Vec<_> =
        entries.iter().map(|entry| (entry.seq, String::from_utf8_lossy(&entry.value))).collect();
    let seen: Vec<_> = seen.iter().map(|(seq, value)| (*seq, &**value)).collect();
    assert_eq!(seen, expected);
}

async fn fill(world: &World, log: &Key, count: u64, max_len: usize) {
    for number in 1..=count {
        world.write(&[append(log, &format!("e{number}"), max_len)]).await;
    }
}

pub async fn a_log_that_was_never_written_is_empty(world: &World) {
    assert_entries(&world.log(&world.key("log")).await, &[]);
}

pub async fn entries_are_numbered_from_one(world: &World) {
    let log = world.key("log");
    fill(world, &log, 3, 10).await;
    assert_entries(&world.log(&log).await, &[(1, "e1"), (2, "e2"), (3, "e3")]);
}

pub async fn a_log_keeps_its_newest_entries(world: &World) {
    let log = world.key("log");
    fill(world, &log, 5, 3).await;
    assert_entries(&world.log(&log).await, &[(3, "e3"), (4, "e4"), (5, "e5")]);
}

pub async fn a_log_is_cut_to_what_the_last_append_says(world: &World) {
    let log = world.key("log");
    fill(world, &log, 5, 10).await;
    world.write(&[append(&log, "e6", 2)]).await;
    assert_entries(&world.log(&log).await, &[(5, "e5"), (6, "e6")]);
}

pub async fn a_log_is_read_after_a_number(world: &World) {
    let log = world.key("log");
    fill(world, &log, 4, 10).await;
    let read = async |after, limit| said(world.store().read_log(&log, after, limit).await);
    assert_entries(&read(2, 10).await, &[(3, "e3"), (4, "e4")]);
    assert_entries(&read(1, 2).await, &[(2, "e2"), (3, "e3")]);
    assert_entries(&read(4, 10).await, &[]);
    assert_entries(&read(40, 10).await, &[]);
}

pub async fn a_log_is_read_from_the_oldest_kept(world: &World) {
    let log = world.key("log");
    fill(world, &log, 5, 2).await;
    assert_entries(&said(world.store().read_log(&log, 1, 10).await), &[(4, "e4"), (5, "e5")]);
}

pub async fn one_commit_may_append_more_than_once(world: &World) {
    let (log, other) = (world.key("log"), world.key("other"));
    world.write(&[append(&log, "a", 10), append(&other, "x", 10), append(&log, "b", 10)]).await;
    assert_entries(&world.log(&log).await, &[(1, "a"), (2, "b")]);
    assert_entries(&world.log(&other).await, &[(1, "x")]);
}

pub async fn an_append_goes_with_its_commit(world: &World) {
    let (log, record) = (world.key("log"), world.key("r"));
    world.write(&[put(&record, "1"), append(&log, "a", 10)]).await;
    world.assert_record(&record, Some("1")).await;
    assert_entries(&said(world.second().read_log(&log, 0, 10).await), &[(1, "a")]);
}

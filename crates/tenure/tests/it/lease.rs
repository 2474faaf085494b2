//! `tenure lease`: tables, JSON and exit codes.

use std::time::Duration;

use tenure_testkit::Process;

use crate::harness::{Harness, LIMIT, code, run_command, tenure};

fn text<'a>(value: &'a serde_json::Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no text {field} in {value}"))
}

#[test]
fn the_life_of_a_lease_in_json() {
    let harness = Harness::new();
    let free = harness.json(&["lease", "get", "a"]);
    assert_eq!(free, serde_json::json!({"key": "a", "state": "free", "waiters": 0}));
    let grant = harness.json(&["lease", "acquire", "a", "--holder", "me", "--ttl", "20s", "--meta", "hello"]);
    assert_eq!((text(&grant, "key"), text(&grant, "holder")), ("a", "me"));
    assert_eq!(grant["ttl_ms"], 20_000);
    assert!(text(&grant, "lease_id").starts_with("cl_"));
    let (token, generation) = (text(&grant, "token"), text(&grant, "generation"));

    let again = harness.json(&["lease", "acquire", "a", "--holder", "me", "--ttl", "20s", "--token", token]);
    assert_eq!(text(&again, "generation"), generation);
    let held = harness.json(&["lease", "get", "a"]);
    assert_eq!((text(&held, "state"), text(&held, "meta")), ("held", "hello"));
    assert_eq!(text(&held, "generation"), generation);
    let list = harness.json(&["lease", "ls"]);
    assert_eq!((list["items"].as_array().unwrap().len(), &list["next"]), (1, &serde_json::Value::Null));
    let proof = ["--token", token, "--generation", generation];
    let renewed = harness.json(&[&["lease", "renew", "a"], &proof[..]].concat());
    assert_eq!(text(&renewed, "outcome"), "renewed");
    assert_eq!(harness.json(&["lease", "release", "a", "--token", token])["outcome"], "released");
    let reigns = harness.json(&["lease", "history", "a"]);
    assert_eq!(reigns["reigns"][0]["end"], "released");

    let lost = harness.tenure(&[&["lease", "renew", "a", "--json"], &proof[..]].concat());
    assert_eq!((lost.code, text(&lost.json(), "outcome")), (76, "lost"));
    let released = harness.tenure(&["lease", "release", "a", "--json", "--token", token]);
    assert_eq!((released.code, text(&released.json(), "outcome")), (76, "not_held"));
    let spent = harness.tenure(&["lease", "acquire", "a", "--token", token]);
    assert!(spent.code == 2 && spent.err.contains("spent"), "{}", spent.err);
}

#[test]
fn tables_are_aligned_and_have_no_colors_in_a_pipe() {
    let harness = Harness::new();
    for key in ["build/main", "x"] {
        harness.json(&["lease", "acquire", key, "--holder", "ci"]);
    }
    let table = harness.tenure(&["lease", "ls"]).out;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    let column = lines[0].find("STATE").unwrap();
    assert!(lines[1..].iter().all(|line| line[column..].starts_with("held")), "{table}");
    assert!(!table.contains('\x1b'));
    assert!(harness.tenure(&["lease", "ls", "--color", "always"]).out.contains('\x1b'));
    assert_eq!(harness.tenure(&["lease", "ls", "build/"]).out.lines().count(), 2);
    let history = harness.tenure(&["lease", "history", "x"]).out;
    assert!(history.contains("held now"), "{history}");
    let one = harness.tenure(&["lease", "get", "x"]).out;
    assert!(one.contains("holder      ci"), "{one}");
}

#[test]
fn long_lists_are_paged_unless_all_is_given() {
    let harness = Harness::new();
    for n in 0..5 {
        harness.json(&["lease", "acquire", &format!("k/{n}")]);
    }
    let page = harness.json(&["lease", "ls", "k/", "--limit", "2"]);
    assert_eq!((page["items"].as_array().unwrap().len(), page["next"].is_string()), (2, true));
    let output = harness.tenure(&["lease", "ls", "k/", "--limit", "2"]);
    assert!(output.err.contains("--all"), "{}", output.err);
    let all = harness.json(&["lease", "ls", "k/", "--all"]);
    assert_eq!((all["items"].as_array().unwrap().len(), all["next"].is_null()), (5, true));
}

#[test]
fn a_busy_key_has_its_own_exit_code() {
    let harness = Harness::new();
    let grant = harness.json(&["lease", "acquire", "k", "--holder", "first"]);
    let busy = harness.tenure(&["lease", "acquire", "k", "--json"]);
    assert_eq!(busy.code, 75);
    let busy = busy.json();
    assert_eq!((text(&busy, "code"), text(&busy, "holder")), ("BUSY", "first"));
    assert_eq!(text(&busy, "generation"), text(&grant, "generation"));
    assert!(busy["remaining_ms"].as_u64().unwrap() <= 30_000 && busy["position"] == 1, "{busy}");
    let busy = harness.tenure(&["lease", "acquire", "k"]);
    assert!(busy.code == 75 && busy.err.contains("held by first") && busy.out.is_empty(), "{}", busy.err);
}

#[test]
fn a_key_is_transferred_to_the_waiting_holder() {
    let harness = Harness::new();
    let grant = harness.json(&["lease", "acquire", "k", "--holder", "first"]);
    let (token, generation) = (text(&grant, "token"), text(&grant, "generation"));
    let proof = ["--token", token, "--generation", generation];
    let transfer = [&["lease", "transfer", "k", "--to", "second"], &proof[..]].concat();
    let refused = harness.tenure(&transfer);
    assert!(refused.code == 75 && refused.err.contains("second is not waiting"), "{}", refused.err);

    let store = harness.store();
    let args = ["lease", "acquire", "k", "--holder", "second", "--wait", "5m", "--json", "--store", &store];
    let waiting = Process::spawn(tenure(harness.dir.path(), &args)).unwrap();
    harness.wait_for_waiter("k");
    let moved = harness.json(&transfer);
    assert_eq!(text(&moved, "holder"), "second");
    let line = waiting.wait_for_line(|_| true, LIMIT).unwrap();
    let second: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(code(&waiting), 0);
    assert_eq!(text(&second, "generation"), text(&moved, "generation"));
    let lost = harness.tenure(&transfer);
    assert_eq!(lost.code, 76, "{}", lost.err);
}

#[test]
fn a_revocation_ends_exactly_the_named_reign() {
    let harness = Harness::new();
    let refused = harness.tenure(&["lease", "revoke", "k", "--reason", "test"]);
    assert!(refused.code == 75 && refused.err.contains("k is not held"), "{}", refused.err);
    let grant = harness.json(&["lease", "acquire", "k"]);
    let stale = harness.tenure(&["lease", "revoke", "k", "--generation", "1", "--reason", "test"]);
    assert!(stale.code == 75 && stale.err.contains(text(&grant, "generation")), "{}", stale.err);
    let revoked = harness.json(&["lease", "revoke", "k", "--delay", "20s", "--reason", "stuck"]);
    assert_eq!((&revoked["delay_ms"], text(&revoked, "reason")), (&20_000.into(), "stuck"));
    assert_eq!(harness.json(&["lease", "get", "k"])["state"], "delayed");
    let without = harness.tenure(&["lease", "revoke", "k"]);
    assert!(without.code == 2 && without.err.contains("--reason"), "{}", without.err);
}

#[test]
fn a_watch_reports_changes_live_and_from_a_revision() {
    let harness = Harness::new();
    let store = harness.store();
    harness.json(&["lease", "acquire", "w/0"]);
    let start = harness.json(&["lease", "ls"]);
    let watch = |from: &str| {
        let args = ["lease", "watch", "w/", "--json", "--from", from, "--store", &store];
        Process::spawn(tenure(harness.dir.path(), &args)).unwrap()
    };
    let line = |process: &Process| -> serde_json::Value {
        serde_json::from_str(&process.wait_for_line(|_| true, LIMIT).unwrap()).unwrap()
    };
    let old = watch(text(&start, "revision"));
    let seen = |key: &str| {
        let change = line(&old);
        assert_eq!((text(&change, "verb"), text(&change, "key")), ("granted", key));
        change
    };
    harness.json(&["lease", "acquire", "w/1"]);
    let first = seen("w/1");
    harness.json(&["lease", "acquire", "other"]);
    harness.json(&["lease", "acquire", "w/2"]);
    let second = seen("w/2");
    let resumed = watch(text(&first, "revision"));
    assert_eq!(line(&resumed), second);
}

#[test]
fn an_interrupted_wait_leaves_no_claim() {
    let harness = Harness::new();
    harness.json(&["lease", "acquire", "k"]);
    let store = harness.store();
    let args = ["lease", "acquire", "k", "--wait", "5m", "--store", &store];
    let waiting = Process::spawn(tenure(harness.dir.path(), &args)).unwrap();
    harness.wait_for_waiter("k");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(waiting.pid() as i32), nix::sys::signal::SIGINT)
        .unwrap();
    assert_eq!(code(&waiting), 130);
    assert_eq!(harness.json(&["lease", "get", "k"])["waiters"], 0);
}

#[test]
fn a_lease_in_an_embedded_store_outlives_the_command_that_acquired_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", dir.path().join("data").display());
    let tenure =
        |args: &[&str]| run_command(tenure(dir.path(), &[args, &["--store", &store, "--json"]].concat()));
    let grant = tenure(&["lease", "acquire", "k", "--ttl", "1h"]).json();
    let held = tenure(&["lease", "get", "k"]).json();
    assert_eq!((text(&held, "state"), &held["generation"]), ("held", &grant["generation"]));
    let released = tenure(&["lease", "release", "k", "--token", text(&grant, "token")]);
    assert_eq!((released.code, text(&released.json(), "outcome")), (0, "released"));
}

#[test]
fn a_hanging_server_is_an_error_and_not_a_hang() {
    let harness = Harness::new();
    harness.redis.pause().unwrap();
    let store = harness.store();
    let args = ["lease", "ls", "--json", "--store", &store];
    let process = Process::spawn(tenure(harness.dir.path(), &args)).unwrap();
    assert_eq!(process.wait(LIMIT.max(Duration::from_secs(60))).unwrap().code(), Some(69));
    harness.redis.resume().unwrap();
}

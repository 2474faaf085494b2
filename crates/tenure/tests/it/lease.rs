//! `tenure lease`: tables, JSON and exit codes.

use std::time::Duration;

use testkit::Process;

use crate::rig::{LIMIT, Rig, code, said, tenure};

fn text<'a>(value: &'a serde_json::Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no text {field} in {value}"))
}

#[test]
fn a_life_of_a_lease_in_json() {
    let rig = Rig::new();
    let free = rig.json(&["lease", "get", "a"]);
    assert_eq!(free, serde_json::json!({"key": "a", "state": "free", "waiters": 0}));
    let grant = rig.json(&["lease", "acquire", "a", "--holder", "me", "--ttl", "20s", "--meta", "hello"]);
    assert_eq!((text(&grant, "key"), text(&grant, "holder")), ("a", "me"));
    assert_eq!(grant["ttl_ms"], 20_000);
    assert!(text(&grant, "lease_id").starts_with("cl_"));
    let (token, generation) = (text(&grant, "token"), text(&grant, "generation"));

    let again = rig.json(&["lease", "acquire", "a", "--holder", "me", "--ttl", "20s", "--token", token]);
    assert_eq!(text(&again, "generation"), generation);
    let held = rig.json(&["lease", "get", "a"]);
    assert_eq!((text(&held, "state"), text(&held, "meta")), ("held", "hello"));
    assert_eq!(text(&held, "generation"), generation);
    let list = rig.json(&["lease", "ls"]);
    assert_eq!((list["items"].as_array().unwrap().len(), &list["next"]), (1, &serde_json::Value::Null));
    let proof = ["--token", token, "--generation", generation];
    let renewed = rig.json(&[&["lease", "renew", "a"], &proof[..]].concat());
    assert_eq!(text(&renewed, "outcome"), "renewed");
    assert_eq!(rig.json(&["lease", "release", "a", "--token", token])["outcome"], "released");
    let reigns = rig.json(&["lease", "history", "a"]);
    assert_eq!(reigns["reigns"][0]["end"], "released");

    let lost = rig.tenure(&[&["lease", "renew", "a", "--json"], &proof[..]].concat());
    assert_eq!((lost.code, text(&lost.json(), "outcome")), (76, "lost"));
    let released = rig.tenure(&["lease", "release", "a", "--json", "--token", token]);
    assert_eq!((released.code, text(&released.json(), "outcome")), (76, "not_held"));
    let spent = rig.tenure(&["lease", "acquire", "a", "--token", token]);
    assert!(spent.code == 2 && spent.err.contains("spent"), "{}", spent.err);
}

#[test]
fn tables_line_up_and_carry_no_colours_into_a_pipe() {
    let rig = Rig::new();
    for key in ["build/main", "x"] {
        rig.json(&["lease", "acquire", key, "--holder", "ci"]);
    }
    let table = rig.tenure(&["lease", "ls"]).out;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    let column = lines[0].find("STATE").unwrap();
    assert!(lines[1..].iter().all(|line| line[column..].starts_with("held")), "{table}");
    assert!(!table.contains('\x1b'));
    assert!(rig.tenure(&["lease", "ls", "--color", "always"]).out.contains('\x1b'));
    assert_eq!(rig.tenure(&["lease", "ls", "build/"]).out.lines().count(), 2);
    let history = rig.tenure(&["lease", "history", "x"]).out;
    assert!(history.contains("held now"), "{history}");
    let one = rig.tenure(&["lease", "get", "x"]).out;
    assert!(one.contains("holder      ci"), "{one}");
}

#[test]
fn long_lists_come_in_pages_unless_all_is_asked_for() {
    let rig = Rig::new();
    for n in 0..5 {
        rig.json(&["lease", "acquire", &format!("k/{n}")]);
    }
    let page = rig.json(&["lease", "ls", "k/", "--limit", "2"]);
    assert_eq!((page["items"].as_array().unwrap().len(), page["next"].is_string()), (2, true));
    let said = rig.tenure(&["lease", "ls", "k/", "--limit", "2"]);
    assert!(said.err.contains("--all"), "{}", said.err);
    let all = rig.json(&["lease", "ls", "k/", "--all"]);
    assert_eq!((all["items"].as_array().unwrap().len(), all["next"].is_null()), (5, true));
}

#[test]
fn a_busy_key_is_an_outcome_with_a_code_of_its_own() {
    let rig = Rig::new();
    let grant = rig.json(&["lease", "acquire", "k", "--holder", "first"]);
    let busy = rig.tenure(&["lease", "acquire", "k", "--json"]);
    assert_eq!(busy.code, 75);
    let busy = busy.json();
    assert_eq!((text(&busy, "code"), text(&busy, "holder")), ("BUSY", "first"));
    assert_eq!(text(&busy, "generation"), text(&grant, "generation"));
    assert!(busy["remaining_ms"].as_u64().unwrap() <= 30_000 && busy["position"] == 1, "{busy}");
    let words = rig.tenure(&["lease", "acquire", "k"]);
    assert!(words.code == 75 && words.err.contains("held by first") && words.out.is_empty(), "{}", words.err);
}

#[test]
fn a_key_goes_to_who_waits_for_it() {
    let rig = Rig::new();
    let grant = rig.json(&["lease", "acquire", "k", "--holder", "first"]);
    let (token, generation) = (text(&grant, "token"), text(&grant, "generation"));
    let proof = ["--token", token, "--generation", generation];
    let transfer = [&["lease", "transfer", "k", "--to", "second"], &proof[..]].concat();
    let nobody = rig.tenure(&transfer);
    assert!(nobody.code == 75 && nobody.err.contains("second does not wait"), "{}", nobody.err);

    let store = rig.store();
    let args = ["lease", "acquire", "k", "--holder", "second", "--wait", "5m", "--json", "--store", &store];
    let waiting = Process::spawn(tenure(rig.dir.path(), &args)).unwrap();
    rig.wait_for_waiter("k");
    let moved = rig.json(&transfer);
    assert_eq!(text(&moved, "holder"), "second");
    let line = waiting.wait_for_line(|_| true, LIMIT).unwrap();
    let second: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(code(&waiting), 0);
    assert_eq!(text(&second, "generation"), text(&moved, "generation"));
    let lost = rig.tenure(&transfer);
    assert_eq!(lost.code, 76, "{}", lost.err);
}

#[test]
fn force_ends_exactly_the_reign_that_was_meant() {
    let rig = Rig::new();
    let nobody = rig.tenure(&["lease", "revoke", "k", "--reason", "test"]);
    assert!(nobody.code == 75 && nobody.err.contains("nobody holds k"), "{}", nobody.err);
    let grant = rig.json(&["lease", "acquire", "k"]);
    let stale = rig.tenure(&["lease", "revoke", "k", "--generation", "1", "--reason", "test"]);
    assert!(stale.code == 75 && stale.err.contains(text(&grant, "generation")), "{}", stale.err);
    let revoked = rig.json(&["lease", "revoke", "k", "--delay", "20s", "--reason", "stuck"]);
    assert_eq!((&revoked["delay_ms"], text(&revoked, "reason")), (&20_000.into(), "stuck"));
    assert_eq!(rig.json(&["lease", "get", "k"])["state"], "delayed");
    let without = rig.tenure(&["lease", "revoke", "k"]);
    assert!(without.code == 2 && without.err.contains("--reason"), "{}", without.err);
}

#[test]
fn changes_are_seen_as_they_happen_and_from_where_one_left() {
    let rig = Rig::new();
    let store = rig.store();
    rig.json(&["lease", "acquire", "w/0"]);
    let start = rig.json(&["lease", "ls"]);
    let watch = |from: &str| {
        let args = ["lease", "watch", "w/", "--json", "--from", from, "--store", &store];
        Process::spawn(tenure(rig.dir.path(), &args)).unwrap()
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
    rig.json(&["lease", "acquire", "w/1"]);
    let first = seen("w/1");
    rig.json(&["lease", "acquire", "other"]);
    rig.json(&["lease", "acquire", "w/2"]);
    let second = seen("w/2");
    let resumed = watch(text(&first, "revision"));
    assert_eq!(line(&resumed), second);
}

#[test]
fn an_interrupted_wait_leaves_no_claim() {
    let rig = Rig::new();
    rig.json(&["lease", "acquire", "k"]);
    let store = rig.store();
    let args = ["lease", "acquire", "k", "--wait", "5m", "--store", &store];
    let waiting = Process::spawn(tenure(rig.dir.path(), &args)).unwrap();
    rig.wait_for_waiter("k");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(waiting.pid() as i32), nix::sys::signal::SIGINT)
        .unwrap();
    assert_eq!(code(&waiting), 130);
    assert_eq!(rig.json(&["lease", "get", "k"])["waiters"], 0);
}

#[test]
fn a_lease_in_a_folder_outlives_the_command_that_took_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", dir.path().join("data").display());
    let tenure = |args: &[&str]| said(tenure(dir.path(), &[args, &["--store", &store, "--json"]].concat()));
    let grant = tenure(&["lease", "acquire", "k", "--ttl", "1h"]).json();
    let held = tenure(&["lease", "get", "k"]).json();
    assert_eq!((text(&held, "state"), &held["generation"]), ("held", &grant["generation"]));
    let released = tenure(&["lease", "release", "k", "--token", text(&grant, "token")]);
    assert_eq!((released.code, text(&released.json(), "outcome")), (0, "released"));
}

#[test]
fn a_hanging_server_is_an_error_and_not_a_hang() {
    let rig = Rig::new();
    rig.redis.pause().unwrap();
    let store = rig.store();
    let args = ["lease", "ls", "--json", "--store", &store];
    let process = Process::spawn(tenure(rig.dir.path(), &args)).unwrap();
    assert_eq!(process.wait(LIMIT.max(Duration::from_secs(60))).unwrap().code(), Some(69));
    rig.redis.resume().unwrap();
}

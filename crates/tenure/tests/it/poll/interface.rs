//! `tenure poll targets`, and the routes behind it, on a server with the embedded store.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use serde_json::json;
use tempfile::TempDir;
use testkit::{Process, wait};

use super::endpoint::Endpoint;
use crate::rig::{LIMIT, Said, said, tenure};

struct Up {
    dir: TempDir,
    endpoint: Endpoint,
    process: Process,
}

impl Up {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = tenure(dir.path(), &["up", "--listen", "127.0.0.1:0"]);
        command.env("TENURE_POLL__DISCOVERY_INTERVAL_MS", "400").env("TENURE_POLL__SYNC_INTERVAL_MS", "200");
        let process = Process::spawn(command).unwrap();
        process.wait_for_line(|line| line.contains("polls as"), LIMIT).unwrap();
        Self { dir, endpoint: Endpoint::start(), process }
    }

    fn poll(&self, args: &[&str]) -> Said {
        said(tenure(self.dir.path(), &[&["poll"], args].concat()))
    }

    fn json(&self, args: &[&str]) -> serde_json::Value {
        let said = self.poll(&[args, &["--json"]].concat());
        assert_eq!(said.code, 0, "{args:?}: {}", said.err);
        said.json()
    }
}

#[test]
fn targets_are_added_listed_paused_resumed_and_removed() {
    let up = Up::start();
    let address = up.endpoint.url("a");
    let added = up.poll(&["targets", "add", &address, "--id", "a", "--name", "The A", "--interval", "50ms"]);
    assert_eq!((added.code, added.out.trim()), (0, "a"), "{}", added.err);
    wait::until("it is polled", LIMIT, || up.endpoint.hits().len() > 2).unwrap();
    let listed = up.json(&["targets", "ls"]);
    let item = &listed["items"][0];
    assert_eq!((&item["name"], &item["state"]), (&json!("The A"), &json!("owned")));
    assert_eq!((&item["last"]["ok"], &item["last"]["value"]), (&json!(true), &json!(1)));
    let owner = item["owner"].as_str().unwrap();
    assert_eq!(up.json(&["nodes"])["nodes"][0]["instance"], owner);
    let table = up.poll(&["targets", "ls"]).out;
    assert!(["The A", "owned", "ok", owner].iter().all(|word| table.contains(word)), "{table}");
    wait::until("results are kept", LIMIT, || {
        up.json(&["targets", "get", "a"])["results"].as_array().unwrap().len() > 2
    })
    .unwrap();
    let shown = up.poll(&["targets", "get", "a"]).out;
    let rows = shown.lines().filter(|line| line.contains(owner) && line.contains("200")).count();
    assert!(rows > 2, "its last results, and who polled: {shown}");
    assert_eq!(up.poll(&["targets", "pause", "a"]).code, 0);
    wait::until("it is let go", LIMIT, || up.json(&["targets", "ls"])["items"][0]["state"] == "paused")
        .unwrap();
    let hits = up.endpoint.hits().len();
    assert_eq!(up.poll(&["targets", "resume", "a"]).code, 0);
    wait::until("it is polled again", LIMIT, || up.endpoint.hits().len() > hits + 1).unwrap();
    let reigns = up.json(&["targets", "get", "a"])["reigns"].as_array().unwrap().clone();
    assert_eq!(reigns[0]["end"], "released");
    assert_eq!(up.poll(&["targets", "rm", "a"]).code, 0);
    let gone = up.poll(&["targets", "get", "a"]);
    assert_eq!(gone.code, 1, "{}", gone.err);
    let nodes = up.json(&["nodes"]);
    assert_eq!(nodes["nodes"].as_array().unwrap().len(), 1);
    up.process.terminate().unwrap();
    assert!(up.process.wait(LIMIT).unwrap().success());
}

#[test]
fn targets_are_imported_and_imported_again_changes_them() {
    let up = Up::start();
    let file = up.dir.path().join("targets.json");
    let list: Vec<_> = (0..5)
        .map(|i| json!({ "id": format!("t{i}"), "address": up.endpoint.url(&format!("t{i}")), "intervalMs": 100 }))
        .collect();
    fs::write(&file, serde_json::to_string(&list).unwrap()).unwrap();
    let file = file.display().to_string();
    assert_eq!(up.json(&["targets", "import", &file]), json!({ "added": 5, "changed": 0 }));
    wait::until("all are polled", LIMIT, || up.endpoint.last().len() == 5).unwrap();
    assert_eq!(up.json(&["targets", "import", &file]), json!({ "added": 0, "changed": 5 }));
    // One object per line is a list, too, and standard input a file.
    let line = json!({ "id": "t5", "address": up.endpoint.url("t5") }).to_string();
    let mut command = tenure(up.dir.path(), &["poll", "targets", "import", "-", "--json"]);
    let mut import = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    writeln!(import.stdin.take().unwrap(), "{line}").unwrap();
    let said = Said::from(import.wait_with_output().unwrap());
    assert_eq!(said.json(), json!({ "added": 1, "changed": 0 }));
    fs::write(&file, "[{\"id\": \"x\"}]").unwrap();
    assert_eq!(up.poll(&["targets", "import", &file]).code, 2);
    assert_eq!(up.json(&["targets", "ls"])["items"].as_array().unwrap().len(), 6);
}

#[test]
fn bad_targets_are_refused_and_secrets_are_never_shown() {
    let up = Up::start();
    for bad in ["nowhere", "ftp://h/x"] {
        let said = up.poll(&["targets", "add", bad, "--id", "bad"]);
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(said.err.contains("address"), "{}", said.err);
    }
    let address = up.endpoint.url("s");
    let secret =
        ["--bearer", "hush-1", "--header", "X-Key: hush-2", "--webhook", "http://127.0.0.1:9/hush-3"];
    let add = [&["targets", "add", address.as_str(), "--id", "s"][..], &secret[..]].concat();
    assert_eq!(up.poll(&add).code, 0);
    let again = up.poll(&add);
    assert_eq!(again.code, 75, "{}", again.err);
    wait::until("it is polled", LIMIT, || !up.endpoint.hits().is_empty()).unwrap();
    for args in [&["targets", "ls"][..], &["targets", "get", "s"], &["nodes"]] {
        let (plain, json) = (up.poll(args), up.json(args));
        let shown = plain.out + &plain.err + &json.to_string();
        assert!(!shown.contains("hush"), "{args:?}: {shown}");
    }
}

#[test]
fn settings_that_do_not_go_together_end_the_start_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = tenure(dir.path(), &["poll", "--store", "memory:"]);
    command.env("TENURE_POLL__RENEW_INTERVAL_MS", "20000");
    let refused = said(command);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("renew_interval_ms"), "{}", refused.err);
}

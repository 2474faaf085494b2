//! `tenure poll targets` and its HTTP routes, on a server with the embedded store.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use serde_json::json;
use tempfile::TempDir;
use tenure_testkit::{Process, wait};

use super::endpoint::Endpoint;
use crate::harness::{CommandOutput, LIMIT, run_command, tenure};

struct Fixture {
    dir: TempDir,
    endpoint: Endpoint,
    process: Process,
}

impl Fixture {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = tenure(dir.path(), &["up", "--listen", "127.0.0.1:0"]);
        command.env("TENURE_POLL__DISCOVERY_INTERVAL_MS", "400").env("TENURE_POLL__SYNC_INTERVAL_MS", "200");
        let process = Process::spawn(command).unwrap();
        process.wait_for_line(|line| line.contains("poll node"), LIMIT).unwrap();
        Self { dir, endpoint: Endpoint::start(), process }
    }

    fn poll(&self, args: &[&str]) -> CommandOutput {
        run_command(tenure(self.dir.path(), &[&["poll"], args].concat()))
    }

    fn json(&self, args: &[&str]) -> serde_json::Value {
        let output = self.poll(&[args, &["--json"]].concat());
        assert_eq!(output.code, 0, "{args:?}: {}", output.err);
        output.json()
    }
}

#[test]
fn targets_are_added_listed_paused_resumed_and_removed() {
    let fixture = Fixture::start();
    let address = fixture.endpoint.url("a");
    let added =
        fixture.poll(&["targets", "add", &address, "--id", "a", "--name", "The A", "--interval", "50ms"]);
    assert_eq!((added.code, added.out.trim()), (0, "a"), "{}", added.err);
    wait::until("the target is polled", LIMIT, || fixture.endpoint.hits().len() > 2).unwrap();
    let listed = fixture.json(&["targets", "ls"]);
    let item = &listed["items"][0];
    assert_eq!((&item["name"], &item["state"]), (&json!("The A"), &json!("owned")));
    assert_eq!((&item["last"]["ok"], &item["last"]["value"]), (&json!(true), &json!(1)));
    let owner = item["owner"].as_str().unwrap();
    assert_eq!(fixture.json(&["nodes"])["nodes"][0]["instance"], owner);
    let table = fixture.poll(&["targets", "ls"]).out;
    assert!(["The A", "owned", "ok", owner].iter().all(|word| table.contains(word)), "{table}");
    wait::until("results are kept", LIMIT, || {
        fixture.json(&["targets", "get", "a"])["results"].as_array().unwrap().len() > 2
    })
    .unwrap();
    let output = fixture.poll(&["targets", "get", "a"]).out;
    let rows = output.lines().filter(|line| line.contains(owner) && line.contains("200")).count();
    assert!(rows > 2, "missing results: {output}");
    assert_eq!(fixture.poll(&["targets", "pause", "a"]).code, 0);
    wait::until("the target is released", LIMIT, || {
        fixture.json(&["targets", "ls"])["items"][0]["state"] == "paused"
    })
    .unwrap();
    let hits = fixture.endpoint.hits().len();
    assert_eq!(fixture.poll(&["targets", "resume", "a"]).code, 0);
    wait::until("the target is polled again", LIMIT, || fixture.endpoint.hits().len() > hits + 1).unwrap();
    let reigns = fixture.json(&["targets", "get", "a"])["reigns"].as_array().unwrap().clone();
    assert_eq!(reigns[0]["end"], "released");
    assert_eq!(fixture.poll(&["targets", "rm", "a"]).code, 0);
    let gone = fixture.poll(&["targets", "get", "a"]);
    assert_eq!(gone.code, 1, "{}", gone.err);
    let nodes = fixture.json(&["nodes"]);
    assert_eq!(nodes["nodes"].as_array().unwrap().len(), 1);
    fixture.process.terminate().unwrap();
    assert!(fixture.process.wait(LIMIT).unwrap().success());
}

#[test]
fn a_second_import_changes_existing_targets() {
    let fixture = Fixture::start();
    let file = fixture.dir.path().join("targets.json");
    let list: Vec<_> = (0..5)
        .map(|i| json!({ "id": format!("t{i}"), "address": fixture.endpoint.url(&format!("t{i}")), "intervalMs": 100 }))
        .collect();
    fs::write(&file, serde_json::to_string(&list).unwrap()).unwrap();
    let file = file.display().to_string();
    assert_eq!(fixture.json(&["targets", "import", &file]), json!({ "added": 5, "changed": 0 }));
    wait::until("all are polled", LIMIT, || fixture.endpoint.last().len() == 5).unwrap();
    assert_eq!(fixture.json(&["targets", "import", &file]), json!({ "added": 0, "changed": 5 }));
    // One object per line, from standard input.
    let line = json!({ "id": "t5", "address": fixture.endpoint.url("t5") }).to_string();
    let mut command = tenure(fixture.dir.path(), &["poll", "targets", "import", "-", "--json"]);
    let mut import = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    writeln!(import.stdin.take().unwrap(), "{line}").unwrap();
    let output = CommandOutput::from(import.wait_with_output().unwrap());
    assert_eq!(output.json(), json!({ "added": 1, "changed": 0 }));
    fs::write(&file, "[{\"id\": \"x\"}]").unwrap();
    assert_eq!(fixture.poll(&["targets", "import", &file]).code, 2);
    assert_eq!(fixture.json(&["targets", "ls"])["items"].as_array().unwrap().len(), 6);
}

#[test]
fn invalid_targets_are_refused_and_secrets_are_never_displayed() {
    let fixture = Fixture::start();
    for bad in ["nowhere", "ftp://h/x"] {
        let output = fixture.poll(&["targets", "add", bad, "--id", "bad"]);
        assert_eq!(output.code, 2, "{}", output.err);
        assert!(output.err.contains("address"), "{}", output.err);
    }
    let address = fixture.endpoint.url("s");
    let secret =
        ["--bearer", "hush-1", "--header", "X-Key: hush-2", "--webhook", "http://127.0.0.1:9/hush-3"];
    let add = [&["targets", "add", address.as_str(), "--id", "s"][..], &secret[..]].concat();
    assert_eq!(fixture.poll(&add).code, 0);
    let again = fixture.poll(&add);
    assert_eq!(again.code, 75, "{}", again.err);
    wait::until("the target is polled", LIMIT, || !fixture.endpoint.hits().is_empty()).unwrap();
    for args in [&["targets", "ls"][..], &["targets", "get", "s"], &["nodes"]] {
        let (plain, json) = (fixture.poll(args), fixture.json(args));
        let output = plain.out + &plain.err + &json.to_string();
        assert!(!output.contains("hush"), "{args:?}: {output}");
    }
}

#[test]
fn inconsistent_settings_are_reported_at_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = tenure(dir.path(), &["poll", "--store", "memory:"]);
    command.env("TENURE_POLL__RENEW_INTERVAL_MS", "20000");
    let refused = run_command(command);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("renew_interval_ms"), "{}", refused.err);
}

//! `tenure run` under faults: the process group of the command ends before another holder can own the key, whatever hangs,
//! stops or dies.
//!
//! The work proves it with stamps. A renewal sent before the fault counts for at most one TTL, so no stamp may be later
//! than the fault plus the TTL. Where another command waits for the key, the order of stamps in the file shows that the
//! first had stopped when the second began.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tenure_testkit::{Proxy, wait};

use crate::harness::{Harness, LIMIT, code, known_new, lives, number, parent};
use crate::stamps::{Stamps, uptime};

const TTL: Duration = Duration::from_secs(3);
const ARGS: [&str; 2] = ["--ttl", "3s"];
const WAITING: [&str; 4] = ["--ttl", "3s", "--wait", "5m"];

/// The last stamp of `who` is within the TTL of the fault at `fault`.
fn assert_gone_in_time(stamps: &Stamps, who: &str, fault: Duration) {
    let last = stamps.last(who).uptime;
    assert!(last <= fault + TTL, "{who} was alive {:?} after the fault", last - fault);
}

#[test]
fn work_is_gone_before_the_deadline_when_the_server_hangs() {
    let harness = Harness::new();
    let stamps = Stamps::new(harness.dir.path());
    let first =
        harness.run(&harness.store(), "k", &ARGS, &format!("echo group $$; {}", stamps.forever("first")));
    let group = number(&first, "group");
    stamps.wait_for("first");
    let second = harness.run(&harness.store(), "k", &WAITING, &stamps.one("second"));
    harness.wait_for_waiter("k");
    harness.redis.pause().unwrap();
    let fault = uptime();
    assert_eq!(code(&first), 76);
    assert!(!lives(group));
    assert_gone_in_time(&stamps, "first", fault);
    harness.redis.resume().unwrap();
    assert_eq!(code(&second), 0);
    stamps.assert_in_turns();
    assert!(stamps.last("second").generation > stamps.last("first").generation);
}

#[test]
fn work_is_gone_before_the_next_holder_works_when_the_network_is_cut() {
    let harness = Harness::new();
    let stamps = Stamps::new(harness.dir.path());
    let proxy = Proxy::start(harness.redis.addr()).unwrap();
    let through = known_new(&proxy.url_for_redis());
    let first = harness.run(&through, "k", &ARGS, &format!("echo group $$; {}", stamps.forever("first")));
    let group = number(&first, "group");
    stamps.wait_for("first");
    let second = harness.run(&harness.store(), "k", &WAITING, &stamps.one("second"));
    harness.wait_for_waiter("k");
    proxy.refuse().unwrap();
    proxy.cut().unwrap();
    let fault = uptime();
    assert_eq!(code(&second), 0);
    assert_eq!(code(&first), 76);
    assert!(!lives(group));
    assert_gone_in_time(&stamps, "first", fault);
    stamps.assert_in_turns();
}

#[test]
fn work_is_gone_before_the_next_holder_works_when_the_command_line_is_stopped() {
    let harness = Harness::new();
    let stamps = Stamps::new(harness.dir.path());
    let first =
        harness.run(&harness.store(), "k", &ARGS, &format!("echo group $$; {}", stamps.forever("first")));
    let group = number(&first, "group");
    stamps.wait_for("first");
    let second = harness.run(&harness.store(), "k", &WAITING, &stamps.one("second"));
    harness.wait_for_waiter("k");
    first.pause().unwrap();
    let fault = uptime();
    assert_eq!(code(&second), 0);
    // It still stands, so what ended the work was not it.
    assert!(!lives(group));
    first.resume().unwrap();
    assert_eq!(code(&first), 76);
    assert_gone_in_time(&stamps, "first", fault);
    stamps.assert_in_turns();
}

#[test]
fn work_is_gone_before_the_next_holder_works_when_the_command_line_is_killed() {
    let harness = Harness::new();
    let stamps = Stamps::new(harness.dir.path());
    let first =
        harness.run(&harness.store(), "k", &ARGS, &format!("echo group $$; {}", stamps.forever("first")));
    let group = number(&first, "group");
    stamps.wait_for("first");
    let second = harness.run(&harness.store(), "k", &WAITING, &stamps.one("second"));
    harness.wait_for_waiter("k");
    first.kill9().unwrap();
    assert_eq!(code(&second), 0);
    assert!(!lives(group));
    stamps.assert_in_turns();
}

#[test]
fn work_that_ignores_sigterm_and_its_grandchildren_are_killed() {
    let harness = Harness::new();
    let stamps = Stamps::new(harness.dir.path());
    let script = format!(
        "trap '' TERM; echo group $$; ({}) & ({}) & {}",
        stamps.forever("child"),
        format_args!("sh -c 'trap \"\" TERM HUP; {}' & wait", stamps.forever("grandchild").replace('\'', "")),
        stamps.forever("first"),
    );
    let first = harness.run(&harness.store(), "k", &ARGS, &script);
    let group = number(&first, "group");
    let family = ["first", "child", "grandchild"];
    for who in family {
        stamps.wait_for(who);
    }
    harness.redis.pause().unwrap();
    let fault = uptime();
    assert_eq!(code(&first), 76);
    assert!(!lives(group));
    for who in family {
        assert_gone_in_time(&stamps, who, fault);
    }
    harness.redis.resume().unwrap();
}

#[test]
fn work_in_other_process_groups_is_killed() {
    let harness = Harness::new();
    let stamps = Stamps::new(harness.dir.path());
    let script = format!("set -m; ({}) & echo group $!; wait", stamps.forever("job"));
    let first = harness.run(&harness.store(), "k", &ARGS, &script);
    let group = number(&first, "group");
    stamps.wait_for("job");
    assert_ne!(parent(group), group);
    harness.redis.pause().unwrap();
    let fault = uptime();
    assert_eq!(code(&first), 76);
    assert!(!lives(group));
    assert_gone_in_time(&stamps, "job", fault);
    harness.redis.resume().unwrap();
}

#[test]
fn work_gets_sigterm_first_and_the_loss_is_in_the_exit_code() {
    let harness = Harness::new();
    let script = "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    let first = harness.run(&harness.store(), "k", &ARGS, script);
    first.wait_for_line(|line| line == "ready", LIMIT).unwrap();
    harness.redis.pause().unwrap();
    first.wait_for_line(|line| line == "asked", LIMIT).unwrap();
    assert_eq!(code(&first), 76);
    harness.redis.resume().unwrap();
}

#[test]
fn a_revoked_lease_ends_the_work() {
    let harness = Harness::new();
    let first = harness.run(&harness.store(), "k", &ARGS, "echo group $$; sleep 1000");
    let group = number(&first, "group");
    let revoked = harness.json(&["lease", "revoke", "k", "--reason", "test", "--delay", "10s"]);
    assert_eq!(revoked["delay_ms"], 10_000);
    assert_eq!(code(&first), 76);
    assert!(!lives(group));
}

#[test]
fn work_under_a_stopped_watchdog_is_killed() {
    let harness = Harness::new();
    let stamps = Stamps::new(harness.dir.path());
    let first =
        harness.run(&harness.store(), "k", &ARGS, &format!("echo group $$; {}", stamps.forever("first")));
    let group = number(&first, "group");
    stamps.wait_for("first");
    kill(Pid::from_raw(parent(group)), Signal::SIGSTOP).unwrap();
    harness.redis.pause().unwrap();
    let fault = uptime();
    assert_eq!(code(&first), 76);
    assert!(!lives(group));
    assert_gone_in_time(&stamps, "first", fault);
    harness.redis.resume().unwrap();
}

#[test]
fn work_under_a_dead_watchdog_is_killed() {
    let harness = Harness::new();
    let first = harness.run(&harness.store(), "k", &ARGS, "echo group $$; sleep 1000");
    let group = number(&first, "group");
    kill(Pid::from_raw(parent(group)), Signal::SIGKILL).unwrap();
    assert_eq!(code(&first), 70);
    assert!(!lives(group));
    // The key was given back after that.
    wait::until("the key is free", LIMIT, || harness.json(&["lease", "get", "k"])["state"] == "free")
        .unwrap();
}

#[test]
fn an_embedded_store_does_not_grant_again_before_the_lease_of_a_killed_holder_expires() {
    let harness = Harness::new();
    let stamps = Stamps::new(harness.dir.path());
    let store = format!("embedded:{}", harness.dir.path().join("data").display());
    let first = harness.run(&store, "k", &ARGS, &format!("echo group $$; {}", stamps.forever("first")));
    let group = number(&first, "group");
    let began = stamps.wait_for("first").uptime;
    first.kill9().unwrap();
    let second = harness.run(&store, "k", &WAITING, &stamps.one("second"));
    assert_eq!(code(&second), 0);
    assert!(!lives(group));
    stamps.assert_in_turns();
    assert!(stamps.last("second").uptime >= began, "time goes forward");
    let history = crate::harness::run_command(crate::harness::tenure(
        harness.dir.path(),
        &["lease", "history", "k", "--json", "--store", &store],
    ))
    .json();
    assert_eq!(history["reigns"][0]["end"], "expired");
}

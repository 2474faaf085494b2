//! `tenure run` when the lease cannot be kept: the command's process group is gone before anybody else can own
//! the key, whatever hangs, stops or dies.
//!
//! The work proves it itself. A renewal that left before the fault counts at most one TTL from then, so no stamp
//! may be later than the fault plus the TTL; and where somebody waits for the key, the order of the stamps in the
//! file shows that the first had stopped when the second began.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::{Proxy, wait};

use crate::rig::{LIMIT, Rig, code, known_new, lives, number, parent};
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
    let rig = Rig::new();
    let stamps = Stamps::new(rig.dir.path());
    let first = rig.run(&rig.store(), "k", &ARGS, &format!("echo group $$; {}", stamps.forever("first")));
    let group = number(&first, "group");
    stamps.wait_for("first");
    let second = rig.run(&rig.store(), "k", &WAITING, &stamps.one("second"));
    rig.wait_for_waiter("k");
    rig.redis.pause().unwrap();
    let fault = uptime();
    assert_eq!(code(&first), 76);
    assert!(!lives(group));
    assert_gone_in_time(&stamps, "first", fault);
    rig.redis.resume().unwrap();
    assert_eq!(code(&second), 0);
    stamps.assert_in_turns();
    assert!(stamps.last("second").generation > stamps.last("first").generation);
}

#[test]
fn work_is_gone_before_the_next_holder_works_when_the_network_is_cut() {
    let rig = Rig::new();
    let stamps = Stamps::new(rig.dir.path());
    let proxy = Proxy::start(rig.redis.addr()).unwrap();
    let through = known_new(&proxy.url_for_redis());
    let first = rig.run(&through, "k", &ARGS, &format!("echo group $$; {}", stamps.forever("first")));
    let group = number(&first, "group");
    stamps.wait_for("first");
    let second = rig.run(&rig.store(), "k", &WAITING, &stamps.one("second"));
    rig.wait_for_waiter("k");
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
    let rig = Rig::new();
    let stamps = Stamps::new(rig.dir.path());
    let first = rig.run(&rig.store(), "k", &ARGS, &format!("echo group $$; {}", stamps.forever("first")));
    let group = number(&first, "group");
    stamps.wait_for("first");
    let second = rig.run(&rig.store(), "k", &WAITING, &stamps.one("second"));
    rig.wait_for_waiter("k");
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
    let rig = Rig::new();
    let stamps = Stamps::new(rig.dir.path());
    let first = rig.run(&rig.store(), "k", &ARGS, &format!("echo group $$; {}", stamps.forever("first")));
    let group = number(&first, "group");
    stamps.wait_for("first");
    let second = rig.run(&rig.store(), "k", &WAITING, &stamps.one("second"));
    rig.wait_for_waiter("k");
    first.kill9().unwrap();
    assert_eq!(code(&second), 0);
    assert!(!lives(group));
    stamps.assert_in_turns();
}

#[test]
fn work_that_ignores_sigterm_and_its_grandchildren_are_gone_too() {
    let rig = Rig::new();
    let stamps = Stamps::new(rig.dir.path());
    let script = format!(
        "trap '' TERM; echo group $$; ({}) & ({}) & {}",
        stamps.forever("child"),
        format_args!("sh -c 'trap \"\" TERM HUP; {}' & wait", stamps.forever("grandchild").replace('\'', "")),
        stamps.forever("first"),
    );
    let first = rig.run(&rig.store(), "k", &ARGS, &script);
    let group = number(&first, "group");
    let family = ["first", "child", "grandchild"];
    for who in family {
        stamps.wait_for(who);
    }
    rig.redis.pause().unwrap();
    let fault = uptime();
    assert_eq!(code(&first), 76);
    assert!(!lives(group));
    for who in family {
        assert_gone_in_time(&stamps, who, fault);
    }
    rig.redis.resume().unwrap();
}

#[test]
fn work_in_process_groups_of_its_own_is_gone_too() {
    let rig = Rig::new();
    let stamps = Stamps::new(rig.dir.path());
    let script = format!("set -m; ({}) & echo group $!; wait", stamps.forever("job"));
    let first = rig.run(&rig.store(), "k", &ARGS, &script);
    let group = number(&first, "group");
    stamps.wait_for("job");
    assert_ne!(parent(group), group);
    rig.redis.pause().unwrap();
    let fault = uptime();
    assert_eq!(code(&first), 76);
    assert!(!lives(group));
    assert_gone_in_time(&stamps, "job", fault);
    rig.redis.resume().unwrap();
}

#[test]
fn work_that_obeys_sigterm_is_asked_first_and_the_loss_shows_in_the_code() {
    let rig = Rig::new();
    let script = "trap 'echo asked; exit 0' TERM; echo ready; while :; do sleep 0.02; done";
    let first = rig.run(&rig.store(), "k", &ARGS, script);
    first.wait_for_line(|line| line == "ready", LIMIT).unwrap();
    rig.redis.pause().unwrap();
    first.wait_for_line(|line| line == "asked", LIMIT).unwrap();
    assert_eq!(code(&first), 76);
    rig.redis.resume().unwrap();
}

#[test]
fn a_revoked_lease_ends_the_work() {
    let rig = Rig::new();
    let first = rig.run(&rig.store(), "k", &ARGS, "echo group $$; sleep 1000");
    let group = number(&first, "group");
    let revoked = rig.json(&["lease", "revoke", "k", "--reason", "test", "--delay", "10s"]);
    assert_eq!(revoked["delay_ms"], 10_000);
    assert_eq!(code(&first), 76);
    assert!(!lives(group));
}

#[test]
fn a_stopped_watchdog_does_not_save_the_work() {
    let rig = Rig::new();
    let stamps = Stamps::new(rig.dir.path());
    let first = rig.run(&rig.store(), "k", &ARGS, &format!("echo group $$; {}", stamps.forever("first")));
    let group = number(&first, "group");
    stamps.wait_for("first");
    kill(Pid::from_raw(parent(group)), Signal::SIGSTOP).unwrap();
    rig.redis.pause().unwrap();
    let fault = uptime();
    assert_eq!(code(&first), 76);
    assert!(!lives(group));
    assert_gone_in_time(&stamps, "first", fault);
    rig.redis.resume().unwrap();
}

#[test]
fn a_dead_watchdog_takes_the_work_with_it() {
    let rig = Rig::new();
    let first = rig.run(&rig.store(), "k", &ARGS, "echo group $$; sleep 1000");
    let group = number(&first, "group");
    kill(Pid::from_raw(parent(group)), Signal::SIGKILL).unwrap();
    assert_eq!(code(&first), 70);
    assert!(!lives(group));
    // The key was given back after that.
    wait::until("the key is free", LIMIT, || rig.json(&["lease", "get", "k"])["state"] == "free").unwrap();
}

#[test]
fn an_embedded_folder_is_not_granted_again_before_the_time_of_a_killed_holder_is_over() {
    let rig = Rig::new();
    let stamps = Stamps::new(rig.dir.path());
    let store = format!("embedded:{}", rig.dir.path().join("data").display());
    let first = rig.run(&store, "k", &ARGS, &format!("echo group $$; {}", stamps.forever("first")));
    let group = number(&first, "group");
    let began = stamps.wait_for("first").uptime;
    first.kill9().unwrap();
    let second = rig.run(&store, "k", &WAITING, &stamps.one("second"));
    assert_eq!(code(&second), 0);
    assert!(!lives(group));
    stamps.assert_in_turns();
    assert!(stamps.last("second").uptime >= began, "time goes forward");
    let history = crate::rig::said(crate::rig::tenure(
        rig.dir.path(),
        &["lease", "history", "k", "--json", "--store", &store],
    ))
    .json();
    assert_eq!(history["reigns"][0]["end"], "expired");
}

//! `tenure run` when all is well.

use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{Harness, LIMIT, code, lives, number, run_command, tenure};
use crate::stamps::Stamps;

#[test]
fn the_command_has_the_lease_in_its_environment_and_its_exit_code_is_returned() {
    let harness = Harness::new();
    let script = "echo \"$TENURE_KEY $TENURE_GENERATION $TENURE_HOLDER\"; exit 7";
    let ran = harness.run(&harness.store(), "a/b", &["--holder", "me"], script);
    let line = ran.wait_for_line(|_| true, LIMIT).unwrap();
    assert_eq!(code(&ran), 7);
    let history = harness.json(&["lease", "history", "a/b"]);
    let reign = &history["reigns"][0];
    assert_eq!(line, format!("a/b {} me", reign["generation"].as_str().unwrap()));
    assert_eq!(reign["end"], "released");
}

#[test]
fn a_signal_that_ended_the_command_is_in_the_exit_code() {
    let harness = Harness::new();
    let ran = harness.run(&harness.store(), "k", &[], "kill -USR1 $$");
    assert_eq!(code(&ran), 128 + Signal::SIGUSR1 as i32);
}

#[test]
fn a_command_that_cannot_start_leaves_nothing_held() {
    let harness = Harness::new();
    let store = harness.store();
    for (command, code) in [("no-such-command-anywhere", 127), ("/etc", 126)] {
        let output = run_command(tenure(harness.dir.path(), &["run", "k", "--store", &store, "--", command]));
        assert_eq!(output.code, code, "{}", output.err);
        assert!(output.err.contains(command), "{}", output.err);
        assert_eq!(harness.json(&["lease", "get", "k"])["state"], "free");
    }
}

#[test]
fn the_command_inherits_standard_input_and_output() {
    let harness = Harness::new();
    let ran = harness.run(&harness.store(), "k", &[], "cat");
    ran.send_line("through").unwrap();
    assert_eq!(ran.wait_for_line(|_| true, LIMIT).unwrap(), "through");
    ran.close_stdin();
    assert_eq!(code(&ran), 0);
}

#[test]
fn a_busy_key_is_waited_for_only_with_wait() {
    let harness = Harness::new();
    harness.json(&["lease", "acquire", "k", "--holder", "other"]);
    let store = harness.store();
    let marker = harness.dir.path().join("ran");
    let touch = ["--", "touch", marker.to_str().unwrap()];
    for wait in [&[][..], &["--wait", "300ms"]] {
        let args = [&["run", "k", "--store", &store], wait, &touch].concat();
        let output = run_command(tenure(harness.dir.path(), &args));
        assert_eq!(output.code, 75, "{}", output.err);
        assert!(output.err.contains("held by other"), "{}", output.err);
    }
    assert!(!marker.exists());
}

#[test]
fn two_waiting_commands_take_turns() {
    let harness = Harness::new();
    let stamps = Stamps::new(harness.dir.path());
    let script = |who: &str| {
        let one = stamps.one(who);
        format!("for i in 1 2 3 4 5 6 7 8 9 10; do {one}; done")
    };
    let wait = ["--wait", "5m"];
    let all: Vec<_> =
        ["a", "b", "c", "d"].map(|who| harness.run(&harness.store(), "k", &wait, &script(who))).into();
    for ran in &all {
        assert_eq!(code(ran), 0);
    }
    assert_eq!(stamps.read().len(), 40);
    stamps.assert_in_turns();
}

#[test]
fn signals_are_forwarded_and_the_exit_code_is_returned() {
    let harness = Harness::new();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let name = &signal.as_str()[3..];
        let script = format!("trap 'echo got; exit 9' {name}; echo ready; while :; do sleep 0.02; done");
        let ran = harness.run(&harness.store(), "k", &[], &script);
        ran.wait_for_line(|line| line == "ready", LIMIT).unwrap();
        kill(Pid::from_raw(ran.pid() as i32), signal).unwrap();
        ran.wait_for_line(|line| line == "got", LIMIT).unwrap();
        assert_eq!(code(&ran), 9, "{name}");
        assert_eq!(harness.json(&["lease", "get", "k"])["state"], "free", "{name}");
    }
}

#[test]
fn sigterm_ends_a_sleep_at_once() {
    let harness = Harness::new();
    let ran = harness.run(&harness.store(), "k", &[], "echo ready; exec sleep 1000");
    ran.wait_for_line(|line| line == "ready", LIMIT).unwrap();
    ran.terminate().unwrap();
    assert_eq!(code(&ran), 128 + Signal::SIGTERM as i32);
    assert_eq!(harness.json(&["lease", "get", "k"])["state"], "free");
}

#[test]
fn the_command_has_no_blocked_and_no_ignored_signals() {
    /// The signals that are not real-time signals, which belong to the environment and the C library.
    const STANDARD: u64 = (1 << 31) - 1;
    let harness = Harness::new();
    let ran = harness.run(&harness.store(), "k", &[], "exec grep -E '^Sig(Blk|Ign)' /proc/self/status");
    for name in ["SigBlk", "SigIgn"] {
        let line = ran.wait_for_line(|line| line.starts_with(name), LIMIT).unwrap();
        let mask = u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap();
        assert_eq!(mask & STANDARD, 0, "{line}");
    }
    assert_eq!(code(&ran), 0);
}

#[test]
fn a_signal_ends_the_wait_and_leaves_no_claim() {
    let harness = Harness::new();
    let held = harness.json(&["lease", "acquire", "k"]);
    let ran = harness.run(&harness.store(), "k", &["--wait", "5m"], "echo never");
    harness.wait_for_waiter("k");
    ran.terminate().unwrap();
    assert_eq!(code(&ran), 128 + 15);
    let token = held["token"].as_str().unwrap();
    assert_eq!(harness.json(&["lease", "release", "k", "--token", token])["outcome"], "released");
    assert_eq!(harness.json(&["lease", "get", "k"])["state"], "free");
}

#[test]
fn leftover_processes_are_killed_before_the_key_is_released() {
    let harness = Harness::new();
    let stamps = Stamps::new(harness.dir.path());
    let script = format!("echo group $$; (trap '' HUP TERM; {}) & exit 3", stamps.forever("left"));
    let ran = harness.run(&harness.store(), "k", &[], &script);
    let group = number(&ran, "group");
    let next = harness.run(&harness.store(), "k", &["--wait", "5m"], &stamps.one("next"));
    assert_eq!(code(&ran), 3);
    assert_eq!(code(&next), 0);
    assert!(!lives(group));
    stamps.assert_in_turns();
}

#[test]
fn the_command_has_its_own_session() {
    let harness = Harness::new();
    let script = "read pid comm state ppid group session rest </proc/$$/stat; echo $pid $group $session";
    let ran = harness.run(&harness.store(), "k", &[], script);
    let line = ran.wait_for_line(|_| true, LIMIT).unwrap();
    let ids: Vec<u32> = line.split(' ').map(|id| id.parse().unwrap()).collect();
    assert_eq!(ids[0], ids[1], "it leads its group");
    assert!(ids[2] != ids[1] && ids[2] != ran.pid(), "its watchdog leads the session");
    assert_eq!(code(&ran), 0);
}

#[test]
fn without_a_store_the_command_does_not_run() {
    let dir = tempfile::tempdir().unwrap();
    let mut command =
        tenure(dir.path(), &["run", "k", "--store", "redis://127.0.0.1:1", "--", "echo", "never"]);
    command.stdin(Stdio::null());
    let output = run_command(command);
    assert_eq!((output.code, output.out.as_str()), (69, ""), "{}", output.err);
    assert!(output.err.contains("check that the store's server is running"), "{}", output.err);
}

#[test]
fn a_ttl_out_of_range_is_a_usage_error() {
    let harness = Harness::new();
    let store = harness.store();
    let output = run_command(tenure(
        harness.dir.path(),
        &["run", "k", "--ttl", "100ms", "--store", &store, "--", "true"],
    ));
    assert_eq!(output.code, 2, "{}", output.err);
    assert!(output.err.contains("500"), "{}", output.err);
}

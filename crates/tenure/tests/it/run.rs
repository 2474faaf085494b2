//! `tenure run` when all is well.

use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::rig::{LIMIT, Rig, code, lives, number, said, tenure};
use crate::stamps::Stamps;

#[test]
fn the_command_sees_what_it_holds_and_its_code_is_ours() {
    let rig = Rig::new();
    let script = "echo \"$TENURE_KEY $TENURE_GENERATION $TENURE_HOLDER\"; exit 7";
    let ran = rig.run(&rig.store(), "a/b", &["--holder", "me"], script);
    let line = ran.wait_for_line(|_| true, LIMIT).unwrap();
    assert_eq!(code(&ran), 7);
    let history = rig.json(&["lease", "history", "a/b"]);
    let reign = &history["reigns"][0];
    assert_eq!(line, format!("a/b {} me", reign["generation"].as_str().unwrap()));
    assert_eq!(reign["end"], "released");
}

#[test]
fn a_signal_that_ended_the_command_shows_in_the_code() {
    let rig = Rig::new();
    let ran = rig.run(&rig.store(), "k", &[], "kill -USR1 $$");
    assert_eq!(code(&ran), 128 + Signal::SIGUSR1 as i32);
}

#[test]
fn a_command_that_cannot_start_leaves_nothing_held() {
    let rig = Rig::new();
    let store = rig.store();
    for (command, code) in [("no-such-command-anywhere", 127), ("/etc", 126)] {
        let said = said(tenure(rig.dir.path(), &["run", "k", "--store", &store, "--", command]));
        assert_eq!(said.code, code, "{}", said.err);
        assert!(said.err.contains(command), "{}", said.err);
        assert_eq!(rig.json(&["lease", "get", "k"])["state"], "free");
    }
}

#[test]
fn standard_input_and_output_are_the_commands() {
    let rig = Rig::new();
    let ran = rig.run(&rig.store(), "k", &[], "cat");
    ran.send_line("through").unwrap();
    assert_eq!(ran.wait_for_line(|_| true, LIMIT).unwrap(), "through");
    ran.close_stdin();
    assert_eq!(code(&ran), 0);
}

#[test]
fn a_busy_key_is_not_waited_for_unless_asked() {
    let rig = Rig::new();
    rig.json(&["lease", "acquire", "k", "--holder", "other"]);
    let store = rig.store();
    let marker = rig.dir.path().join("ran");
    let touch = ["--", "touch", marker.to_str().unwrap()];
    for wait in [&[][..], &["--wait", "300ms"]] {
        let args = [&["run", "k", "--store", &store], wait, &touch].concat();
        let said = said(tenure(rig.dir.path(), &args));
        assert_eq!(said.code, 75, "{}", said.err);
        assert!(said.err.contains("held by other"), "{}", said.err);
    }
    assert!(!marker.exists());
}

#[test]
fn two_that_wait_for_each_other_take_turns() {
    let rig = Rig::new();
    let stamps = Stamps::new(rig.dir.path());
    let script = |who: &str| {
        let one = stamps.one(who);
        format!("for i in 1 2 3 4 5 6 7 8 9 10; do {one}; done")
    };
    let wait = ["--wait", "5m"];
    let all: Vec<_> = ["a", "b", "c", "d"].map(|who| rig.run(&rig.store(), "k", &wait, &script(who))).into();
    for ran in &all {
        assert_eq!(code(ran), 0);
    }
    assert_eq!(stamps.read().len(), 40);
    stamps.assert_in_turns();
}

#[test]
fn signals_reach_the_command_and_its_answer_is_ours() {
    let rig = Rig::new();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let name = &signal.as_str()[3..];
        let script = format!("trap 'echo got; exit 9' {name}; echo ready; while :; do sleep 0.02; done");
        let ran = rig.run(&rig.store(), "k", &[], &script);
        ran.wait_for_line(|line| line == "ready", LIMIT).unwrap();
        kill(Pid::from_raw(ran.pid() as i32), signal).unwrap();
        ran.wait_for_line(|line| line == "got", LIMIT).unwrap();
        assert_eq!(code(&ran), 9, "{name}");
        assert_eq!(rig.json(&["lease", "get", "k"])["state"], "free", "{name}");
    }
}

#[test]
fn a_signal_ends_the_wait_and_leaves_no_claim() {
    let rig = Rig::new();
    let held = rig.json(&["lease", "acquire", "k"]);
    let ran = rig.run(&rig.store(), "k", &["--wait", "5m"], "echo never");
    rig.wait_for_waiter("k");
    ran.terminate().unwrap();
    assert_eq!(code(&ran), 128 + 15);
    let token = held["token"].as_str().unwrap();
    assert_eq!(rig.json(&["lease", "release", "k", "--token", token])["outcome"], "released");
    assert_eq!(rig.json(&["lease", "get", "k"])["state"], "free");
}

#[test]
fn what_the_command_leaves_behind_in_its_group_is_gone_before_the_key_is_given_back() {
    let rig = Rig::new();
    let stamps = Stamps::new(rig.dir.path());
    let script = format!("echo group $$; (trap '' HUP TERM; {}) & exit 3", stamps.forever("left"));
    let ran = rig.run(&rig.store(), "k", &[], &script);
    let group = number(&ran, "group");
    let next = rig.run(&rig.store(), "k", &["--wait", "5m"], &stamps.one("next"));
    assert_eq!(code(&ran), 3);
    assert_eq!(code(&next), 0);
    assert!(!lives(group));
    stamps.assert_in_turns();
}

#[test]
fn the_command_has_a_session_of_its_own() {
    let rig = Rig::new();
    let script = "read pid comm state ppid group session rest </proc/$$/stat; echo $pid $group $session";
    let ran = rig.run(&rig.store(), "k", &[], script);
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
    let said = said(command);
    assert_eq!((said.code, said.out.as_str()), (69, ""), "{}", said.err);
    assert!(said.err.contains("is Redis running there?"), "{}", said.err);
}

#[test]
fn a_ttl_that_the_engine_cannot_keep_is_wrong_usage() {
    let rig = Rig::new();
    let store = rig.store();
    let said = said(tenure(rig.dir.path(), &["run", "k", "--ttl", "100ms", "--store", &store, "--", "true"]));
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("500"), "{}", said.err);
}

//! Child processes.

use std::fs;
use std::process::Command;
use std::time::Duration;

use tenure_testkit::{Process, wait};

use crate::LIMIT;

fn sh(script: &str) -> Process {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    Process::spawn(command).unwrap()
}

/// The state letter of a process, from /proc.
fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim().chars().next()
}

#[test]
fn a_line_is_waited_for_and_returned() {
    let child = sh("echo starting; echo port 4711; cat");
    assert_eq!(child.wait_for_line(|line| line.starts_with("port"), LIMIT).unwrap(), "port 4711");
    child.send_line("hello").unwrap();
    child.wait_for_line(|line| line == "hello", LIMIT).unwrap();
    child.close_stdin();
    assert!(child.wait(LIMIT).unwrap().success());
}

#[test]
fn a_child_that_ends_ends_the_wait_for_its_line() {
    let child = sh("echo last words; exit 3");
    let error = child.wait_for_line(|line| line == "never", LIMIT).unwrap_err();
    assert!(format!("{error:#}").contains("last words"), "{error:#}");
    assert_eq!(child.wait(LIMIT).unwrap().code(), Some(3));
}

#[test]
fn a_paused_child_stands_still_until_it_is_resumed() {
    let child = sh("echo ready; cat");
    child.wait_for_line(|line| line == "ready", LIMIT).unwrap();
    child.pause().unwrap();
    assert_eq!(state(child.pid()), Some('T'));
    child.pause().unwrap();
    child.send_line("hello").unwrap();
    child.resume().unwrap();
    child.wait_for_line(|line| line == "hello", LIMIT).unwrap();
    child.pause().unwrap();
    assert_eq!(state(child.pid()), Some('T'));
}

#[test]
fn a_terminated_child_can_clean_up() {
    let child = sh("trap 'echo bye; exit 7' TERM; echo ready; while :; do read line; done");
    child.wait_for_line(|line| line == "ready", LIMIT).unwrap();
    child.terminate().unwrap();
    child.close_stdin();
    child.wait_for_line(|line| line == "bye", LIMIT).unwrap();
    assert_eq!(child.wait(LIMIT).unwrap().code(), Some(7));
}

#[test]
fn a_killed_child_is_gone_and_can_be_signalled_no_more() {
    let child = sh("echo ready; cat");
    child.kill9().unwrap();
    assert!(!child.is_running());
    assert_eq!(state(child.pid()), None);
    child.kill9().unwrap();
    assert!(child.pause().is_err() && child.resume().is_err() && child.terminate().is_err());
}

#[test]
fn a_dropped_child_is_killed_and_reaped_even_while_paused() {
    let child = sh("echo ready; cat");
    let pid = child.pid();
    child.pause().unwrap();
    drop(child);
    assert_eq!(state(pid), None);
}

#[test]
fn waiting_for_a_child_that_stays_is_bounded() {
    let child = sh("cat");
    assert!(child.wait(Duration::from_millis(10)).is_err());
    assert!(child.wait_for_line(|_| true, Duration::from_millis(10)).is_err());
    assert!(child.is_running());
}

#[test]
fn a_child_ending_by_itself_is_noticed_without_waiting_for_it() {
    let child = sh("exit 0");
    wait::until("the child has ended", LIMIT, || !child.is_running()).unwrap();
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let error = Process::spawn(Command::new("no-such-program")).err().unwrap();
    assert!(error.to_string().contains("no-such-program"), "{error}");
}

//! Processes that an earlier worker left running on this host.
//!
//! A pipeline and its children carry the id of their session in their environment. So no PID has to be stored, which
//! could be reused by another process.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tenure_session::SessionId;

use crate::launch::SESSION_VARIABLE;

/// Kills the processes of a session. Returns whether there were any.
pub(crate) fn kill(id: &SessionId) -> bool {
    let mut found = false;
    for process in processes(id) {
        found = true;
        // The descriptor keeps the PID from being reused between the second check and the signal.
        if let Ok(held) = pidfd_open(process, PidfdFlags::empty())
            && belongs_to(process, id)
        {
            let _already_gone = pidfd_send_signal(held, Signal::KILL);
        }
    }
    found
}

/// Whether no process of a session is running. Zombies do not count.
pub(crate) fn is_gone(id: &SessionId) -> bool {
    processes(id).next().is_none()
}

/// The sessions with a process on this host, of any worker.
pub(crate) fn sessions() -> BTreeSet<String> {
    let found = pids().filter_map(session_of);
    found.collect()
}

fn processes(id: &SessionId) -> impl Iterator<Item = Pid> {
    pids().filter(move |process| belongs_to(*process, id))
}

fn pids() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(Pid::from_raw)
}

fn belongs_to(process: Pid, id: &SessionId) -> bool {
    session_of(process).is_some_and(|found| found == id.as_str())
}

fn session_of(process: Pid) -> Option<String> {
    let environment = fs::read(format!("/proc/{}/environ", process.as_raw_nonzero())).ok()?;
    let mut entries = environment.split(|byte| *byte == 0);
    let found =
        entries.find_map(|entry| entry.strip_prefix(SESSION_VARIABLE.as_bytes())?.strip_prefix(b"="))?;
    String::from_utf8(found.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Duration;

    fn spawn(id: &SessionId) -> std::process::Child {
        Command::new("sleep").arg("1000").env(SESSION_VARIABLE, id.as_str()).spawn().unwrap()
    }

    #[test]
    fn only_processes_of_the_session_are_killed() {
        let name = |tail: &str| SessionId::new(format!("left-{}-{tail}", std::process::id())).unwrap();
        let (ours, other) = (name("a"), name("ab"));
        let (mut child, mut stranger) = (spawn(&ours), spawn(&other));
        tenure_testkit::wait::until("both run", Duration::from_secs(30), || {
            !is_gone(&ours) && !is_gone(&other)
        })
        .unwrap();
        assert!(sessions().contains(ours.as_str()));
        assert!(kill(&ours));
        child.wait().unwrap();
        assert!(is_gone(&ours) && !is_gone(&other));
        assert!(!kill(&ours));
        assert!(kill(&other));
        stranger.wait().unwrap();
    }
}

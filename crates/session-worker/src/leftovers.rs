//! What a worker that ended may have left running on this host.
//!
//! Every pipeline, and all that it starts, carries the id of its session in its environment. So no number has to be kept
//! that may meanwhile be somebody else's.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use session::SessionId;

use crate::launch::SESSION_VARIABLE;

/// Kills what runs for a session. Answers whether there was anything.
pub(crate) fn kill(id: &SessionId) -> bool {
    let mut found = false;
    for process in processes(id) {
        found = true;
        // Held by a descriptor, its number cannot go to a stranger between the second look and the signal.
        if let Ok(held) = pidfd_open(process, PidfdFlags::empty())
            && works_for(process, id)
        {
            let _gone_already = pidfd_send_signal(held, Signal::KILL);
        }
    }
    found
}

/// Whether nothing runs for a session; the dead that nobody has reaped do not count.
pub(crate) fn is_gone(id: &SessionId) -> bool {
    processes(id).next().is_none()
}

/// Every session for which something runs on this host, of this worker's or any other's.
pub(crate) fn all() -> BTreeSet<String> {
    let found = numbers().filter_map(session_of);
    found.collect()
}

fn processes(id: &SessionId) -> impl Iterator<Item = Pid> {
    numbers().filter(move |process| works_for(*process, id))
}

fn numbers() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(Pid::from_raw)
}

fn works_for(process: Pid, id: &SessionId) -> bool {
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

    fn work(id: &SessionId) -> std::process::Child {
        Command::new("sleep").arg("1000").env(SESSION_VARIABLE, id.as_str()).spawn().unwrap()
    }

    #[test]
    fn what_works_for_a_session_is_found_and_killed_and_nothing_else() {
        let name = |tail: &str| SessionId::new(format!("left-{}-{tail}", std::process::id())).unwrap();
        let (ours, other) = (name("a"), name("ab"));
        let (mut child, mut stranger) = (work(&ours), work(&other));
        testkit::wait::until("both run", Duration::from_secs(30), || !is_gone(&ours) && !is_gone(&other))
            .unwrap();
        assert!(all().contains(ours.as_str()));
        assert!(kill(&ours));
        child.wait().unwrap();
        assert!(is_gone(&ours) && !is_gone(&other));
        assert!(!kill(&ours));
        assert!(kill(&other));
        stranger.wait().unwrap();
    }
}

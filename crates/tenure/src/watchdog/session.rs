//! The processes of the work.
//!
//! Everything that the command starts stays in the session of the watchdog unless it leaves on purpose. Shells with job
//! control make process groups of their own in it. So signals go to the group of the command, as a terminal would send
//! them, and a kill goes to the whole session.

use std::fs;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, pidfd_send_signal};

/// Everything below a watchdog.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    /// The watchdog. Its pid is not reused while it is not reaped or a process of the session runs.
    watchdog: Pid,
}

impl Session {
    pub(super) fn of(watchdog: Pid) -> Self {
        Self { watchdog }
    }

    /// Kills every process. One that was about to start is found by the next call.
    pub(super) fn kill(self) {
        for process in self.processes() {
            // With a pidfd, the pid cannot be reused between the second check and the signal.
            if let Ok(held) = pidfd_open(process, PidfdFlags::empty())
                && self.has(process)
            {
                let _gone_already = pidfd_send_signal(held, Signal::KILL);
            }
        }
    }

    /// Whether no process runs; zombies do not count.
    pub(super) fn is_gone(self) -> bool {
        self.processes().next().is_none()
    }

    fn processes(self) -> impl Iterator<Item = Pid> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers.filter_map(Pid::from_raw).filter(move |process| self.has(*process))
    }

    fn has(self, process: Pid) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
        process != self.watchdog
            && stat.ok().and_then(|stat| session_of(&stat)) == Some(self.watchdog.as_raw_nonzero().get())
    }
}

/// Sends a signal to the process group of the command. An empty group is not an error.
///
/// Only while the command is not reaped: until then its pid is not reused.
pub(super) fn signal(command: Pid, signal: Signal) {
    let _no_members = kill_process_group(command, signal);
}

/// The session in `/proc/PID/stat`; none when the process is dead. The name may contain spaces and brackets, so fields are
/// counted from the last bracket.
fn session_of(stat: &str) -> Option<i32> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    let session = fields.nth(2)?.parse().ok()?;
    (!matches!(state, "Z" | "X" | "x")).then_some(session)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn zombies_do_not_count_and_names_do_not_confuse() {
        assert_eq!(session_of("7 (sh) S 1 41 42 0 -1"), Some(42));
        assert_eq!(session_of("7 (a) R 9 (b c) R 1 41 42 0"), Some(42));
        assert_eq!(session_of("7 (sh) Z 1 41 42 0 -1"), None);
        assert_eq!(session_of("nonsense"), None);
    }

    #[test]
    fn a_session_is_gone_when_all_its_groups_are() {
        let script = "set -m; sleep 1000 & sleep 1000 & wait";
        let lead = |script| Command::new("setsid").args(["-w", "sh", "-c", script]).spawn().unwrap();
        let (mut leader, mut stranger) = (lead(script), lead(script));
        // `setsid -w` forks only if it leads a group, which a child of a test does not.
        let [session, others] = [&leader, &stranger].map(|child| Session::of(Pid::from_child(child)));
        let all_sleep = || [session, others].iter().all(|session| session.processes().count() == 2);
        tenure_testkit::wait::until("all sleep", std::time::Duration::from_secs(60), all_sleep).unwrap();
        session.kill();
        leader.wait().unwrap();
        assert!(session.is_gone());
        assert_eq!(others.processes().count(), 2, "others are not touched");
        others.kill();
        stranger.wait().unwrap();
    }
}

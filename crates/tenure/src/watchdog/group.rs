//! The processes of the work.

use std::fs;

use rustix::process::{Pid, Signal, kill_process_group};

/// A process group, led by the command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    leader: Pid,
}

impl Group {
    pub(super) fn new(leader: Pid) -> Self {
        Self { leader }
    }

    pub(super) fn leader(self) -> Pid {
        self.leader
    }

    /// Sends a signal to every member. A group without members is no error.
    ///
    /// Only while the leader is not reaped: until then its number belongs to nobody else.
    pub(super) fn signal(self, signal: Signal) {
        let _no_members = kill_process_group(self.leader, signal);
    }

    /// Whether no member runs any more; a dead leader that nobody reaped does not count.
    pub(super) fn is_gone(self) -> bool {
        let Ok(processes) = fs::read_dir("/proc") else { return true };
        let group = self.leader.as_raw_nonzero().get();
        !processes.flatten().any(|process| {
            let name = process.file_name();
            let number = name.to_str().is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
            number
                && fs::read_to_string(process.path().join("stat"))
                    .ok()
                    .and_then(|stat| member_of(&stat))
                    .is_some_and(|found| found == group)
        })
    }
}

/// The process group in a line of `/proc/PID/stat`; none when the process is dead. The name may hold anything,
/// also spaces and brackets, so the fields count from its last bracket.
fn member_of(stat: &str) -> Option<i32> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    let group = fields.nth(1)?.parse().ok()?;
    (!matches!(state, "Z" | "X" | "x")).then_some(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_are_no_members_and_names_do_not_confuse() {
        assert_eq!(member_of("7 (sh) S 1 42 42 0 -1"), Some(42));
        assert_eq!(member_of("7 (a) R 9 (b c) R 1 42 42 0"), Some(42));
        assert_eq!(member_of("7 (sh) Z 1 42 42 0 -1"), None);
        assert_eq!(member_of("nonsense"), None);
    }

    #[test]
    fn a_group_is_gone_when_its_last_member_is() {
        use std::os::unix::process::CommandExt;
        let mut sleeper = std::process::Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let group = Group::new(Pid::from_child(&sleeper));
        assert!(!group.is_gone());
        group.signal(Signal::KILL);
        sleeper.wait().unwrap();
        assert!(group.is_gone());
    }
}

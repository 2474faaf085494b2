//! Identifies this process, and proves whether another one is dead.

use std::{fmt, fs};

/// Identifies a process uniquely on this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProcessIdentity {
    /// The kernel's boot id.
    pub boot: String,
    /// The inode of its PID namespace.
    pub namespace: u64,
    /// Its PID.
    pub pid: u32,
    /// Its start time in clock ticks since boot.
    pub started: u64,
}

/// The status of a PID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ProcessStatus {
    /// No such process.
    Gone,
    /// A process with this start time.
    Running { started: u64, zombie: bool },
    /// The status cannot be read.
    Unreadable,
}

impl ProcessIdentity {
    /// The identity of this process; `None` if `/proc` is not readable.
    pub fn of_this_process() -> Option<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
        let link = fs::read_link("/proc/self/ns/pid").ok()?;
        let namespace = link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()?;
        let pid = std::process::id();
        match read_process(pid) {
            ProcessStatus::Running { started, .. } if !boot.is_empty() => {
                Some(Self { boot, namespace, pid, started })
            }
            _ => None,
        }
    }

    /// Whether `other` is proven dead now: it ran on this host, and its PID is free or another process. In doubt it is not.
    pub fn finds_dead(&self, other: &Self) -> bool {
        self.proves_dead(other, read_process)
    }

    /// Reads the text that `Display` writes.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let identity = Self {
            boot: parts.next()?.to_owned(),
            namespace: parts.next()?.parse().ok()?,
            pid: parts.next()?.parse().ok()?,
            started: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(identity)
    }

    /// Whether `other` is proven dead by the status of its PID. In doubt it is not.
    pub(crate) fn proves_dead(&self, other: &Self, status_of: impl Fn(u32) -> ProcessStatus) -> bool {
        self.boot == other.boot
            && self.namespace == other.namespace
            && match status_of(other.pid) {
                ProcessStatus::Gone => true,
                ProcessStatus::Running { started, zombie } => zombie || started != other.started,
                ProcessStatus::Unreadable => false,
            }
    }
}

impl fmt::Display for ProcessIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.boot, self.namespace, self.pid, self.started)
    }
}

/// Reads the status of a PID.
pub(crate) fn read_process(pid: u32) -> ProcessStatus {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => parse(&stat).unwrap_or(ProcessStatus::Unreadable),
        Err(error)
            if error.kind() == std::io::ErrorKind::NotFound && fs::metadata("/proc/self/stat").is_ok() =>
        {
            ProcessStatus::Gone
        }
        // The process ended while it was read.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
            ProcessStatus::Gone
        }
        Err(_) => ProcessStatus::Unreadable,
    }
}

/// Parses `/proc/PID/stat`. The process name may contain anything, so fields are counted from the last parenthesis.
fn parse(stat: &str) -> Option<ProcessStatus> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    let started = fields.nth(18)?.parse().ok()?;
    Some(ProcessStatus::Running { started, zombie: matches!(state, "Z" | "X" | "x") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_survives_its_text() {
        let known = ProcessIdentity { boot: "b-1".to_owned(), namespace: 7, pid: 8, started: 9 };
        assert_eq!(ProcessIdentity::parse(&known.to_string()), Some(known));
        for bad in ["", "b/7/8", "b/7/8/9/10", "b/x/8/9"] {
            assert_eq!(ProcessIdentity::parse(bad), None, "{bad}");
        }
    }

    fn identity(boot: &str, namespace: u64) -> ProcessIdentity {
        ProcessIdentity { boot: boot.to_owned(), namespace, pid: 42, started: 1_000 }
    }

    #[test]
    fn only_an_exited_process_of_this_boot_and_namespace_is_proven_dead() {
        let me = identity("b", 1);
        let running = |started, zombie| ProcessStatus::Running { started, zombie };
        let table = [
            (identity("b", 1), ProcessStatus::Gone, true),
            (identity("b", 1), running(1_000, false), false),
            (identity("b", 1), running(1_000, true), true),
            (identity("b", 1), running(1_001, false), true),
            (identity("b", 1), ProcessStatus::Unreadable, false),
            (identity("c", 1), ProcessStatus::Gone, false),
            (identity("b", 2), ProcessStatus::Gone, false),
            (identity("b", 2), running(1_000, true), false),
        ];
        for (row, (other, found, dead)) in table.into_iter().enumerate() {
            assert_eq!(me.proves_dead(&other, |_| found), dead, "row {row}");
        }
    }

    #[test]
    fn this_process_is_not_dead_and_a_reaped_child_is() {
        let me = ProcessIdentity::of_this_process().unwrap();
        assert!(!me.proves_dead(&me, read_process));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert!(me.proves_dead(&ProcessIdentity { pid, started: 0, ..me.clone() }, read_process));
    }

    #[test]
    fn a_process_name_with_parentheses_is_parsed() {
        let rest = "S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0";
        let expected = Some(ProcessStatus::Running { started: 777, zombie: false });
        assert_eq!(parse(&format!("7 (sh) {rest}")), expected);
        assert_eq!(parse(&format!("7 (a) R 9 (b c) {rest}")), expected);
        assert_eq!(parse("nonsense"), None);
    }
}

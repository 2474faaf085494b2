//! Which process this is, and whether another one is dead.

use std::fs;

/// What tells a process from every other one on this host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The kernel's boot.
    pub boot: String,
    /// The inode of its namespace of process numbers.
    pub namespace: u64,
    /// Its number.
    pub pid: u32,
    /// When it started, in ticks since the boot.
    pub started: u64,
}

/// What is under a process number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// Nothing.
    Gone,
    /// A process that started then.
    There { started: u64, zombie: bool },
    /// Something that cannot be read.
    Unreadable,
}

impl Identity {
    /// This process; none where `/proc` does not tell.
    pub fn of_this_process() -> Option<Self> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_owned();
        let link = fs::read_link("/proc/self/ns/pid").ok()?;
        let namespace = link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()?;
        let pid = std::process::id();
        match look(pid) {
            Look::There { started, .. } if !boot.is_empty() => Some(Self { boot, namespace, pid, started }),
            _ => None,
        }
    }

    /// Whether `other` is proven dead by what `look` finds under its number. In doubt it is not.
    pub(crate) fn proves_dead(&self, other: &Self, look: impl Fn(u32) -> Look) -> bool {
        self.boot == other.boot
            && self.namespace == other.namespace
            && match look(other.pid) {
                Look::Gone => true,
                Look::There { started, zombie } => zombie || started != other.started,
                Look::Unreadable => false,
            }
    }
}

/// Looks at a process number.
pub(crate) fn look(pid: u32) -> Look {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => parse(&stat).unwrap_or(Look::Unreadable),
        Err(error)
            if error.kind() == std::io::ErrorKind::NotFound && fs::metadata("/proc/self/stat").is_ok() =>
        {
            Look::Gone
        }
        // A process that ends while it is read.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => Look::Gone,
        Err(_) => Look::Unreadable,
    }
}

/// The line of `/proc/PID/stat`. The name may hold anything, so the fields count from its last bracket.
fn parse(stat: &str) -> Option<Look> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?;
    let started = fields.nth(18)?.parse().ok()?;
    Some(Look::There { started, zombie: matches!(state, "Z" | "X" | "x") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(boot: &str, namespace: u64) -> Identity {
        Identity { boot: boot.to_owned(), namespace, pid: 42, started: 1_000 }
    }

    #[test]
    fn only_a_process_of_this_boot_and_namespace_that_is_gone_is_dead() {
        let me = identity("b", 1);
        let there = |started, zombie| Look::There { started, zombie };
        let table = [
            (identity("b", 1), Look::Gone, true),
            (identity("b", 1), there(1_000, false), false),
            (identity("b", 1), there(1_000, true), true),
            (identity("b", 1), there(1_001, false), true),
            (identity("b", 1), Look::Unreadable, false),
            (identity("c", 1), Look::Gone, false),
            (identity("b", 2), Look::Gone, false),
            (identity("b", 2), there(1_000, true), false),
        ];
        for (row, (other, found, dead)) in table.into_iter().enumerate() {
            assert_eq!(me.proves_dead(&other, |_| found), dead, "row {row}");
        }
    }

    #[test]
    fn this_process_is_not_dead_and_a_reaped_child_is() {
        let me = Identity::of_this_process().unwrap();
        assert!(!me.proves_dead(&me, look));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert!(me.proves_dead(&Identity { pid, started: 0, ..me.clone() }, look));
    }

    #[test]
    fn a_name_does_not_confuse() {
        let rest = "S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0";
        let there = Some(Look::There { started: 777, zombie: false });
        assert_eq!(parse(&format!("7 (sh) {rest}")), there);
        assert_eq!(parse(&format!("7 (a) R 9 (b c) {rest}")), there);
        assert_eq!(parse("nonsense"), None);
    }
}

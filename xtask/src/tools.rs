//! Programs that the tests start. A missing program is installed if possible, and is an error otherwise: a skipped test
//! shows nothing.
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::clock;
use crate::workspace::Workspace;

/// A program of the tests and its Debian package. Tests start their own servers on free ports; the service of a package is
/// not used.
struct Tool {
    program: &'static str,
    package: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool { program: "redis-server", package: "redis-server" },
    Tool { program: "etcd", package: "etcd-server" },
    Tool { program: "faketime", package: "faketime" },
    Tool { program: "luacheck", package: "lua-check" },
    Tool { program: "promtool", package: "prometheus" },
    Tool { program: "systemd-analyze", package: "systemd" },
    Tool { program: "chromium", package: "chromium" },
    Tool { program: "ffmpeg", package: "ffmpeg" },
];

/// Additional programs of the benchmarks. A jar is given by its path.
const PEERS: &[Tool] = &[
    Tool { program: "redis-server", package: "redis-server" },
    Tool { program: "etcd", package: "etcd-server" },
    Tool { program: "java", package: "default-jre-headless" },
    Tool { program: "/usr/share/java/zookeeper.jar", package: "zookeeper" },
    Tool { program: "prosody", package: "prosody" },
    Tool { program: "openssl", package: "openssl" },
    Tool { program: "taskset", package: "util-linux" },
];

/// Attempts while another installation holds the lock of apt.
const LOCK_TRIES: u32 = 30;
/// The pause between attempts.
const LOCK_PAUSE: Duration = Duration::from_secs(10);

/// The summary of this step.
pub(crate) fn headline() -> String {
    TOOLS.iter().map(|tool| tool.program).collect::<Vec<_>>().join(", ")
}

/// Whether `program` can be started by name.
pub(crate) fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| executable(&dir.join(program)))
}

/// Whether a tool exists: on the PATH, or as a file if its name is a path.
fn present(program: &str) -> bool {
    if program.starts_with('/') { Path::new(program).is_file() } else { on_path(program) }
}

fn executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// Installs the missing tools of the tests, or fails with the name of the package.
pub(crate) fn ensure(workspace: &Workspace) -> Result<()> {
    install(workspace, TOOLS)
}

/// The same for the tools of the benchmarks.
pub(crate) fn ensure_peers(workspace: &Workspace) -> Result<()> {
    install(workspace, PEERS)
}

fn install(workspace: &Workspace, tools: &[Tool]) -> Result<()> {
    let root = Path::new("/proc/self").metadata().is_ok_and(|meta| meta.uid() == 0);
    let mut apt = |args: &[&str]| apt_get(workspace, args);
    let mut machine = Machine {
        apt: (root && on_path("apt-get")).then_some(&mut apt as Apt<'_>),
        present: &present,
        pause: &clock::pause,
        updated: false,
    };
    tools.iter().try_for_each(|tool| machine.ensure(tool))
}

/// How a run of apt-get ended.
#[derive(Clone, Debug, PartialEq)]
enum Outcome {
    Done,
    /// Another installation holds the lock; nothing was changed.
    Busy,
    Failed(String),
}

fn apt_get(workspace: &Workspace, args: &[&str]) -> Outcome {
    println!("    apt-get {}", args.join(" "));
    let mut command: Command = workspace.command("apt-get");
    // With RUNLEVEL=1 package scripts do not start services.
    command.args(args).envs([("DEBIAN_FRONTEND", "noninteractive"), ("LC_ALL", "C"), ("RUNLEVEL", "1")]);
    match command.output() {
        Ok(output) => outcome(output.status.success(), &String::from_utf8_lossy(&output.stderr)),
        Err(error) => Outcome::Failed(format!("apt-get did not start: {error}")),
    }
}

fn outcome(success: bool, stderr: &str) -> Outcome {
    const LOCKED: [&str; 4] =
        ["Could not get lock", "Unable to lock", "Unable to acquire the dpkg", "is another process using it"];
    if success {
        Outcome::Done
    } else if LOCKED.iter().any(|words| stderr.contains(words)) {
        Outcome::Busy
    } else {
        Outcome::Failed(stderr.trim().to_owned())
    }
}

/// A way to run apt-get with arguments.
type Apt<'a> = &'a mut dyn FnMut(&[&str]) -> Outcome;

/// What `ensure` needs from the machine, so that its decisions can be tested without one.
struct Machine<'a> {
    /// apt-get, where it exists and may be used.
    apt: Option<Apt<'a>>,
    present: &'a dyn Fn(&str) -> bool,
    pause: &'a dyn Fn(Duration),
    updated: bool,
}

impl Machine<'_> {
    fn ensure(&mut self, tool: &Tool) -> Result<()> {
        let Tool { program, package } = tool;
        if (self.present)(program) {
            return Ok(());
        }
        if self.apt.is_none() {
            bail!(
                "`{program}` is missing: install the package `{package}` (no root or no apt-get to do it here)"
            );
        }
        let mut errors = String::new();
        if !self.updated {
            self.updated = true;
            // A broken source must not hide the packages of other sources.
            errors = self.run_until_unlocked(program, &["update"]);
        }
        errors += &self.run_until_unlocked(program, &["install", "-y", "--no-install-recommends", package]);
        // apt-get also fails if the service of the package does not start; only the program matters.
        if (self.present)(program) {
            return Ok(());
        }
        bail!("`{program}` is missing and the package `{package}` could not be installed: {errors}");
    }

    /// Runs apt-get, with a bounded number of attempts while it is locked; returns the errors.
    fn run_until_unlocked(&mut self, program: &str, args: &[&str]) -> String {
        for attempt in 1..=LOCK_TRIES {
            let Some(apt) = self.apt.as_mut() else { break };
            match apt(args) {
                Outcome::Done => return String::new(),
                Outcome::Failed(why) => return format!("\n  apt-get {}: {why}", args.join(" ")),
                Outcome::Busy if attempt < LOCK_TRIES => (self.pause)(LOCK_PAUSE),
                Outcome::Busy => {}
            }
            // The process that held the lock may have installed the same package.
            if (self.present)(program) {
                return String::new();
            }
        }
        format!("\n  apt-get {}: another installation held the lock {LOCK_TRIES} times", args.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    const TOOL: Tool = Tool { program: "etcd", package: "etcd-server" };

    /// Runs `ensure` against scripted outcomes; returns its result, the apt-get calls and the pauses.
    fn ensure(script: &[Outcome], present_after: Option<usize>) -> (Result<()>, Vec<String>, u32) {
        let calls = RefCell::new(Vec::new());
        let pauses = Cell::new(0);
        let mut apt = |args: &[&str]| {
            calls.borrow_mut().push(args[0].to_owned());
            let index = calls.borrow().len() - 1;
            script.get(index).or(script.last()).cloned().unwrap()
        };
        let mut machine = Machine {
            apt: (!script.is_empty()).then_some(&mut apt as Apt<'_>),
            present: &|_| present_after.is_some_and(|count| calls.borrow().len() >= count),
            pause: &|_| pauses.set(pauses.get() + 1),
            updated: false,
        };
        let result = machine.ensure(&TOOL);
        (result, calls.take(), pauses.get())
    }

    #[test]
    fn a_present_tool_is_left_alone() {
        let (result, calls, _) = ensure(&[Outcome::Done], Some(0));
        result.unwrap();
        assert!(calls.is_empty());
    }

    #[test]
    fn a_missing_tool_is_installed_after_one_update() {
        let (result, calls, pauses) = ensure(&[Outcome::Done], Some(2));
        result.unwrap();
        assert_eq!((calls, pauses), (vec!["update".to_owned(), "install".to_owned()], 0));
    }

    #[test]
    fn without_apt_the_failure_names_the_package() {
        let (result, ..) = ensure(&[], None);
        assert!(result.unwrap_err().to_string().contains("`etcd-server`"));
    }

    #[test]
    fn a_failed_installation_names_the_package_and_the_reason() {
        let script = [Outcome::Failed("no network".into()), Outcome::Failed("no candidate".into())];
        let (result, ..) = ensure(&script, None);
        let error = result.unwrap_err().to_string();
        for part in ["`etcd-server`", "no network", "no candidate"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn success_without_the_program_is_a_failure() {
        let (result, ..) = ensure(&[Outcome::Done], None);
        assert!(result.is_err());
    }

    #[test]
    fn a_held_lock_is_waited_for_within_bounds() {
        let (result, calls, pauses) = ensure(&[Outcome::Busy, Outcome::Busy, Outcome::Done], Some(4));
        result.unwrap();
        assert_eq!((calls.len(), pauses), (4, 2));
        let (result, calls, pauses) = ensure(&[Outcome::Busy], None);
        assert!(result.unwrap_err().to_string().contains("held the lock"));
        assert_eq!((calls.len() as u32, pauses), (2 * LOCK_TRIES, 2 * (LOCK_TRIES - 1)));
    }

    #[test]
    fn the_lock_is_distinguished_from_other_failures() {
        let locked = "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt-get)";
        assert_eq!(outcome(false, locked), Outcome::Busy);
        assert_eq!(
            outcome(false, "E: Unable to locate package x\n"),
            Outcome::Failed("E: Unable to locate package x".into())
        );
        assert_eq!(outcome(true, locked), Outcome::Done);
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(on_path("sh"));
        assert!(!on_path("no-such-program-anywhere"));
        assert!(present("/etc/passwd"));
        assert!(!present("/no/such/file"));
    }
}

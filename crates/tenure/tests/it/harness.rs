//! A Redis server for a test, and commands on it.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tenure_testkit::{Process, RedisServer, wait};

/// The longest wait of a test: long enough for a loaded machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

pub(crate) struct Harness {
    pub(crate) redis: RedisServer,
    pub(crate) dir: TempDir,
}

/// The output of a finished command.
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl CommandOutput {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {:?} {:?}", self.out, self.err))
    }
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The built binary in a directory without a server, and without variables that it would read.
pub(crate) fn tenure(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.current_dir(dir).args(args);
    for name in ["TENURE_URL", "TENURE_TOKEN", "TENURE_DATA_DIR", "NO_COLOR"] {
        command.env_remove(name);
    }
    command
}

pub(crate) fn run_command(mut command: Command) -> CommandOutput {
    command.stdin(Stdio::null()).output().unwrap().into()
}

impl Harness {
    pub(crate) fn new() -> Self {
        Self { redis: RedisServer::start().unwrap(), dir: tempfile::tempdir().unwrap() }
    }

    /// The store URL, without a quarantine: this Redis is known to be new.
    pub(crate) fn store(&self) -> String {
        known_new(&self.redis.url())
    }

    /// Runs a command on the store until it exits.
    pub(crate) fn tenure(&self, args: &[&str]) -> CommandOutput {
        let store = self.store();
        run_command(tenure(self.dir.path(), &[args, &["--store", &store]].concat()))
    }

    /// The same with `--json`, of a command that must succeed.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let output = self.tenure(&[args, &["--json"]].concat());
        assert_eq!(output.code, 0, "{args:?}: {}", output.err);
        output.json()
    }

    /// Starts `tenure run KEY … -- sh -c SCRIPT` on a store.
    pub(crate) fn run(&self, store: &str, key: &str, args: &[&str], script: &str) -> Process {
        let args = [&["run", key, "--store", store], args, &["--", "sh", "-c", script]].concat();
        Process::spawn(tenure(self.dir.path(), &args)).unwrap()
    }

    /// Waits until a claim waits for `key`.
    pub(crate) fn wait_for_waiter(&self, key: &str) {
        wait::until("a claim waits", LIMIT, || self.json(&["lease", "get", key])["waiters"] == 1).unwrap();
    }
}

pub(crate) fn known_new(url: &str) -> String {
    format!("{url}?quarantine_ms=0")
}

/// The exit code of a process that exits by itself.
pub(crate) fn code(process: &Process) -> i32 {
    process.wait(LIMIT).unwrap().code().unwrap_or(-1)
}

/// The number in a line `WORD NUMBER` of a process.
pub(crate) fn number(process: &Process, word: &str) -> i32 {
    let line = process.wait_for_line(|line| line.starts_with(word), LIMIT).unwrap();
    line.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Whether any process of a group runs.
pub(crate) fn lives(group: i32) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        let fields: Vec<&str> =
            stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
        fields.len() > 2 && fields[0] != "Z" && fields[2] == group.to_string()
    })
}

/// The parent of a process.
pub(crate) fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    rest.split_whitespace().nth(1).unwrap().parse().unwrap()
}

//! A Redis of the test's own and commands on it.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use testkit::{Process, RedisServer, wait};

/// Long against everything a test waits for; a machine that is busy must not fail it.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

pub(crate) struct Rig {
    pub(crate) redis: RedisServer,
    pub(crate) dir: TempDir,
}

/// What a finished command left.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {:?} {:?}", self.out, self.err))
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The built binary in a folder without a server, and with nothing in its environment that it would take.
pub(crate) fn tenure(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.current_dir(dir).args(args);
    for name in ["TENURE_URL", "TENURE_TOKEN", "TENURE_DATA_DIR", "NO_COLOR"] {
        command.env_remove(name);
    }
    command
}

pub(crate) fn said(mut command: Command) -> Said {
    command.stdin(Stdio::null()).output().unwrap().into()
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self { redis: RedisServer::start().unwrap(), dir: tempfile::tempdir().unwrap() }
    }

    /// The Redis of this test is known to be new.
    pub(crate) fn store(&self) -> String {
        known_new(&self.redis.url())
    }

    /// Runs a command on the store to its end.
    pub(crate) fn tenure(&self, args: &[&str]) -> Said {
        let store = self.store();
        said(tenure(self.dir.path(), &[args, &["--store", &store]].concat()))
    }

    /// The same with `--json`, of a command that must succeed.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let said = self.tenure(&[args, &["--json"]].concat());
        assert_eq!(said.code, 0, "{args:?}: {}", said.err);
        said.json()
    }

    /// Starts `tenure run KEY … -- sh -c SCRIPT` on a store.
    pub(crate) fn run(&self, store: &str, key: &str, args: &[&str], script: &str) -> Process {
        let args = [&["run", key, "--store", store], args, &["--", "sh", "-c", script]].concat();
        Process::spawn(tenure(self.dir.path(), &args)).unwrap()
    }

    /// Waits until somebody waits for `key`.
    pub(crate) fn wait_for_waiter(&self, key: &str) {
        wait::until("somebody waits", LIMIT, || self.json(&["lease", "get", key])["waiters"] == 1).unwrap();
    }
}

pub(crate) fn known_new(url: &str) -> String {
    format!("{url}?quarantine_ms=0")
}

/// The exit code of a process that ends by itself.
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

//! The files of a Redis server, which survive restarts.

use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::{RedisBuilder, clock, field, local};
use crate::child::Child;
use crate::launch::{Failure, Launch};
use crate::resp::{Reply, RespClient};

pub(super) const PROGRAM: &str = "redis-server";
pub(super) const MISSING: &str =
    "redis-server not found: apt-get install redis-server (cargo xtask test does it)";

/// The directories and options of a server.
pub(super) struct RedisFiles {
    pub(super) home: TempDir,
    pub(super) dir: PathBuf,
    pub(super) spec: RedisBuilder,
}

impl RedisFiles {
    /// Starts the server on `port` and waits until it is ready.
    pub(super) fn launch(&self, port: u16, primary: Option<SocketAddr>) -> Result<Child, Failure> {
        let log = self.home.path().join("log");
        let mut command = Command::new(&self.spec.program);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
        command.arg("--dir").arg(&self.dir).args(["--save", "", "--repl-diskless-sync-delay", "0"]);
        for (key, value) in &self.spec.config {
            command.args([&format!("--{key}"), value]);
        }
        if self.spec.clock {
            self.step(0).map_err(Failure::Other)?;
            clock::give(&mut command, &self.clock_file()).map_err(Failure::Other)?;
        }
        if let Some(primary) = primary {
            command.args(["--replicaof", &primary.ip().to_string(), &primary.port().to_string()]);
        }
        Launch { name: PROGRAM, missing: MISSING, log: &log }
            .run(command, |child| serves(local(port), child.pid()))
    }

    /// Sets the difference between the clock of the server and that of the machine, in seconds.
    pub(super) fn step(&self, seconds: i64) -> Result<()> {
        clock::offset(&self.clock_file(), seconds)
    }

    /// Stops the clock of the server at this many microseconds since the Unix epoch.
    pub(super) fn freeze(&self, micros: u64) -> Result<()> {
        clock::freeze(&self.clock_file(), micros)
    }

    fn clock_file(&self) -> PathBuf {
        self.home.path().join("clock")
    }

    /// Removes only the persistence files of Redis: the directory may belong to the caller.
    pub(super) fn erase(&self) -> Result<()> {
        let named = |key: &str, default: &str| {
            let set = self.spec.config.iter().rev().find(|(name, _)| name == key);
            self.dir.join(set.map_or(default, |(_, value)| value))
        };
        absent_is_fine(fs::remove_file(named("dbfilename", "dump.rdb")))?;
        absent_is_fine(fs::remove_dir_all(named("appenddirname", "appendonlydir")))
    }
}

/// Whether the process `pid` responds at `addr` and has loaded its data.
fn serves(addr: SocketAddr, pid: u32) -> bool {
    let info = RespClient::connect(addr).and_then(|mut client| client.command(&["INFO", "server"]));
    match info {
        // A server with a password does not report its pid; it is enough that the process is running.
        Ok(Reply::Error(error)) => error.starts_with("NOAUTH"),
        Ok(info) => field(&info, "process_id") == Some(pid.to_string().as_str()) && loaded(addr),
        Err(_) => false,
    }
}

/// While Redis loads its data, `INFO` succeeds and `PING` fails.
fn loaded(addr: SocketAddr) -> bool {
    RespClient::connect(addr)
        .and_then(|mut client| client.command(&["PING"]))
        .is_ok_and(|reply| !matches!(reply, Reply::Error(error) if error.starts_with("LOADING")))
}

fn absent_is_fine(removed: std::io::Result<()>) -> Result<()> {
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).context("cannot remove the data of Redis")
        }
        _ => Ok(()),
    }
}

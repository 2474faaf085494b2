//! A real `redis-server` of a test's own.

use std::fs;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::child::Child;
use crate::launch::{Failure, Launch, on_free_ports};
use crate::resp::{Reply, RespClient};
use crate::{free_port, lock, wait};

const PROGRAM: &str = "redis-server";
const MISSING: &str = "redis-server not found: apt-get install redis-server (cargo xtask test does it)";

/// When Redis forces its append-only file to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendFsync {
    /// Before every answer.
    Always,
    /// Once a second.
    EverySec,
    /// When the kernel likes.
    No,
}

/// What a [`RedisServer`] is started with.
#[derive(Clone)]
pub struct RedisBuilder {
    program: PathBuf,
    config: Vec<(String, String)>,
    primary: Option<SocketAddr>,
    dir: Option<PathBuf>,
}

impl RedisBuilder {
    /// Keeps an append-only file. Without this the server keeps nothing over a restart.
    pub fn appendonly(self, fsync: AppendFsync) -> Self {
        let fsync = match fsync {
            AppendFsync::Always => "always",
            AppendFsync::EverySec => "everysec",
            AppendFsync::No => "no",
        };
        self.config("appendonly", "yes").config("appendfsync", fsync)
    }

    /// Replicates from `primary`; see [`RedisServer::wait_for_sync`].
    pub fn replica_of(self, primary: &RedisServer) -> Self {
        self.replica_of_addr(primary.addr())
    }

    /// Replicates from whoever is at `addr`: a [`Proxy`](crate::Proxy) there can cut the replication.
    pub fn replica_of_addr(mut self, addr: SocketAddr) -> Self {
        self.primary = Some(addr);
        self
    }

    /// Sets one line of `redis.conf`; a later one overrides an earlier one.
    pub fn config(mut self, key: &str, value: &str) -> Self {
        self.config.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Keeps the data in `path`, which must exist and is not removed afterwards.
    pub fn dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.dir = Some(path.into());
        self
    }

    /// Starts the server and waits until it answers.
    pub fn start(self) -> Result<RedisServer> {
        let home =
            tempfile::Builder::new().prefix("testkit-redis-").tempdir().context("a directory for Redis")?;
        let dir = match &self.dir {
            Some(dir) => dir.clone(),
            None => home.path().join("data"),
        };
        if self.dir.is_none() {
            fs::create_dir(&dir).context("a data directory for Redis")?;
        }
        let site = Site { home, dir, spec: self };
        let (port, child) = on_free_ports(|| {
            let port = free_port().map_err(Failure::Other)?;
            Ok((port, site.launch(port, site.spec.primary)?))
        })?;
        let primary = Mutex::new(site.spec.primary);
        Ok(RedisServer { child: Mutex::new(child), primary, port, site })
    }
}

/// A running `redis-server` on 127.0.0.1 with its own data directory. Dropping it kills and reaps it.
///
/// By default it writes nothing to disk (`save ""`) and lets a replica in without the usual five seconds of delay.
pub struct RedisServer {
    // Before the site, so that the server is dead before its directory goes.
    child: Mutex<Child>,
    primary: Mutex<Option<SocketAddr>>,
    port: u16,
    site: Site,
}

impl RedisServer {
    /// Starts one with the defaults.
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// Settings for one that differs.
    pub fn builder() -> RedisBuilder {
        RedisBuilder { program: PROGRAM.into(), config: Vec::new(), primary: None, dir: None }
    }

    /// `redis://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        local(self.port)
    }

    /// The port it listens on, also after a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id, another one after a restart.
    pub fn pid(&self) -> u32 {
        lock(&self.child).pid()
    }

    /// Where its data is.
    pub fn dir(&self) -> &Path {
        &self.site.dir
    }

    /// Runs one command on a connection of its own, bypassing every proxy. A refusal is [`Reply::Error`].
    pub fn command<A: AsRef<[u8]>>(&self, args: &[A]) -> Result<Reply> {
        RespClient::connect(self.addr())?.command(args)
    }

    /// A connection of its own, for several commands in a row.
    pub fn client(&self) -> Result<RespClient> {
        RespClient::connect(self.addr())
    }

    /// `SIGKILL`; returns when it is gone and its port closed.
    pub fn kill9(&self) -> Result<()> {
        lock(&self.child).kill9()
    }

    /// `SIGSTOP`; returns when it stands still. Connections stay open and unanswered.
    pub fn pause(&self) -> Result<()> {
        lock(&self.child).pause()
    }

    /// `SIGCONT`.
    pub fn resume(&self) -> Result<()> {
        lock(&self.child).resume()
    }

    /// Kills it if it runs and starts it again on the same port with the data its persistence kept.
    pub fn restart(&self) -> Result<()> {
        self.relaunch(|| Ok(()))
    }

    /// Kills it if it runs and starts it again on the same port with nothing, as after the loss of its disk.
    pub fn restart_empty(&self) -> Result<()> {
        self.relaunch(|| self.site.erase())
    }

    /// Makes a replica a primary, also over a later restart.
    pub fn promote(&self) -> Result<()> {
        self.must_be_ok(&["REPLICAOF", "NO", "ONE"])?;
        *lock(&self.primary) = None;
        Ok(())
    }

    /// Makes it a replica of `primary`, also over a later restart. Its own data goes.
    pub fn follow(&self, primary: &RedisServer) -> Result<()> {
        self.must_be_ok(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()])?;
        *lock(&self.primary) = Some(primary.addr());
        Ok(())
    }

    /// Waits until this replica has its primary's data and follows its writes.
    pub fn wait_for_sync(&self, limit: Duration) -> Result<()> {
        wait::until("the replica is in sync", limit, || {
            let info = self.command(&["INFO", "replication"]);
            info.is_ok_and(|info| field(&info, "master_link_status") == Some("up"))
        })
    }

    /// Deletes every key.
    pub fn flushall(&self) -> Result<()> {
        self.must_be_ok(&["FLUSHALL"])
    }

    fn relaunch(&self, between: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut child = lock(&self.child);
        child.kill9()?;
        between()?;
        let primary = *lock(&self.primary);
        *child = self.site.launch(self.port, primary)?;
        Ok(())
    }

    fn must_be_ok(&self, args: &[&str]) -> Result<()> {
        match self.command(args)? {
            Reply::Status(_) => Ok(()),
            other => bail!("{args:?} was answered {other:?}"),
        }
    }
}

/// What a server has over all its lives: its directories and its settings.
struct Site {
    home: TempDir,
    dir: PathBuf,
    spec: RedisBuilder,
}

impl Site {
    fn launch(&self, port: u16, primary: Option<SocketAddr>) -> Result<Child, Failure> {
        let log = self.home.path().join("log");
        let mut command = Command::new(&self.spec.program);
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
        command.arg("--dir").arg(&self.dir).args(["--save", "", "--repl-diskless-sync-delay", "0"]);
        for (key, value) in &self.spec.config {
            command.args([&format!("--{key}"), value]);
        }
        if let Some(primary) = primary {
            command.args(["--replicaof", &primary.ip().to_string(), &primary.port().to_string()]);
        }
        Launch { name: PROGRAM, missing: MISSING, log: &log }
            .run(command, |child| serves(local(port), child.pid()))
    }

    /// Removes what Redis persists and nothing else: the directory may be the caller's.
    fn erase(&self) -> Result<()> {
        let named = |key: &str, default: &str| {
            let set = self.spec.config.iter().rev().find(|(name, _)| name == key);
            self.dir.join(set.map_or(default, |(_, value)| value))
        };
        absent_is_fine(fs::remove_file(named("dbfilename", "dump.rdb")))?;
        absent_is_fine(fs::remove_dir_all(named("appenddirname", "appendonlydir")))
    }
}

/// Whether the process `pid` itself answers at `addr`, with its data loaded.
fn serves(addr: SocketAddr, pid: u32) -> bool {
    let info = RespClient::connect(addr).and_then(|mut client| client.command(&["INFO", "server"]));
    match info {
        // A server with a password does not say who it is; that it runs has to do.
        Ok(Reply::Error(error)) => error.starts_with("NOAUTH"),
        Ok(info) => field(&info, "process_id") == Some(pid.to_string().as_str()) && loaded(addr),
        Err(_) => false,
    }
}

/// `INFO` is answered while Redis still loads its data; `PING` is then refused.
fn loaded(addr: SocketAddr) -> bool {
    RespClient::connect(addr)
        .and_then(|mut client| client.command(&["PING"]))
        .is_ok_and(|reply| !matches!(reply, Reply::Error(error) if error.starts_with("LOADING")))
}

fn field<'a>(info: &'a Reply, key: &str) -> Option<&'a str> {
    info.text()?.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

fn absent_is_fine(removed: std::io::Result<()>) -> Result<()> {
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).context("erase the data of Redis"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_redis_server_says_how_to_get_one() {
        let mut builder = RedisServer::builder();
        builder.program = "no-such-redis-server".into();
        assert_eq!(builder.start().err().unwrap().to_string(), MISSING);
    }
}

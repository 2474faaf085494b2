//! A `redis-server` for one test.

mod builder;
mod clock;
mod files;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::child::Child;
use crate::resp::{Reply, RespClient};
use crate::{lock, wait};
pub use builder::{AppendFsync, RedisBuilder};
use files::RedisFiles;

/// A running `redis-server` on 127.0.0.1 with its own data directory. Dropping it kills and reaps it.
///
/// By default it writes nothing to disk (`save ""`) and synchronizes replicas without the usual delay of five seconds.
pub struct RedisServer {
    // Declared first, so that the server ends before its directory is removed.
    child: Mutex<Child>,
    primary: Mutex<Option<SocketAddr>>,
    port: u16,
    files: RedisFiles,
}

impl RedisServer {
    /// Starts a server with default options.
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// A builder with default options.
    pub fn builder() -> RedisBuilder {
        RedisBuilder::new()
    }

    /// `redis://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// The address.
    pub fn addr(&self) -> SocketAddr {
        local(self.port)
    }

    /// The port, which stays the same after a restart.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process id, which changes with a restart.
    pub fn pid(&self) -> u32 {
        lock(&self.child).pid()
    }

    /// The data directory.
    pub fn dir(&self) -> &Path {
        &self.files.dir
    }

    /// Runs one command on a new connection, without a proxy. An error reply is [`Reply::Error`].
    pub fn command<A: AsRef<[u8]>>(&self, args: &[A]) -> Result<Reply> {
        RespClient::connect(self.addr())?.command(args)
    }

    /// Opens a connection for several commands.
    pub fn client(&self) -> Result<RespClient> {
        RespClient::connect(self.addr())
    }

    /// Sends `SIGKILL`; returns when it has ended and its port is closed.
    pub fn kill9(&self) -> Result<()> {
        lock(&self.child).kill9()
    }

    /// Sends `SIGSTOP`; returns when it has stopped. Connections stay open without responses.
    pub fn pause(&self) -> Result<()> {
        lock(&self.child).pause()
    }

    /// Sends `SIGCONT`.
    pub fn resume(&self) -> Result<()> {
        lock(&self.child).resume()
    }

    /// Kills it if it is running and restarts it on the same port with its persisted data.
    pub fn restart(&self) -> Result<()> {
        self.relaunch(|| Ok(()))
    }

    /// Kills it if it is running and restarts it on the same port without data, as after the loss of its disk.
    pub fn restart_empty(&self) -> Result<()> {
        self.relaunch(|| self.files.erase())
    }

    /// Promotes a replica to primary, also for later restarts.
    pub fn promote(&self) -> Result<()> {
        self.must_be_ok(&["REPLICAOF", "NO", "ONE"])?;
        *lock(&self.primary) = None;
        Ok(())
    }

    /// Makes it a replica of `primary`, also for later restarts. Its data is discarded.
    pub fn follow(&self, primary: &RedisServer) -> Result<()> {
        self.must_be_ok(&["REPLICAOF", "127.0.0.1", &primary.port.to_string()])?;
        *lock(&self.primary) = Some(primary.addr());
        Ok(())
    }

    /// Waits until this replica is in sync with its primary.
    pub fn wait_for_sync(&self, limit: Duration) -> Result<()> {
        wait::until("the replica is in sync", limit, || {
            let info = self.command(&["INFO", "replication"]);
            info.is_ok_and(|info| field(&info, "master_link_status") == Some("up"))
        })
    }

    /// Steps the clock of a server that was started with [its own clock](RedisBuilder::own_clock): it differs from the clock
    /// of the machine by this many seconds from now on.
    pub fn step_clock(&self, seconds: i64) -> Result<()> {
        anyhow::ensure!(self.files.spec.clock, "this server does not have its own clock");
        self.files.step(seconds)
    }

    /// Stops the clock of a server that was started with [its own clock](RedisBuilder::own_clock) at this many microseconds
    /// since the Unix epoch.
    pub fn freeze_clock(&self, micros: u64) -> Result<()> {
        anyhow::ensure!(self.files.spec.clock, "this server does not have its own clock");
        self.files.freeze(micros)
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
        *child = self.files.launch(self.port, primary)?;
        Ok(())
    }

    fn must_be_ok(&self, args: &[&str]) -> Result<()> {
        match self.command(args)? {
            Reply::Status(_) => Ok(()),
            other => bail!("unexpected reply to {args:?}: {other:?}"),
        }
    }
}

fn field<'a>(info: &'a Reply, key: &str) -> Option<&'a str> {
    info.text()?.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

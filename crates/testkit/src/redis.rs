//! A real `redis-server` of a test's own.

mod builder;
mod clock;
mod site;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::child::Child;
use crate::resp::{Reply, RespClient};
use crate::{lock, wait};
pub use builder::{AppendFsync, RedisBuilder};
use site::RedisFiles;

/// A running `redis-server` on 127.0.0.1 with its own data directory. Dropping it kills and reaps it.
///
/// By default it writes nothing to disk (`save ""`) and lets a replica in without the usual five seconds of delay.
pub struct RedisServer {
    // Before the site, so that the server is dead before its directory goes.
    child: Mutex<Child>,
    primary: Mutex<Option<SocketAddr>>,
    port: u16,
    site: RedisFiles,
}

impl RedisServer {
    /// Starts one with the defaults.
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// Settings for one that differs.
    pub fn builder() -> RedisBuilder {
        RedisBuilder::new()
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

    /// Steps the clock of a server that was started with [one of its own](RedisBuilder::own_clock): so many seconds off
    /// the machine's from now on.
    pub fn step_clock(&self, seconds: i64) -> Result<()> {
        anyhow::ensure!(self.site.spec.clock, "this server has no clock of its own");
        self.site.step(seconds)
    }

    /// Stops the clock of a server that was started with [one of its own](RedisBuilder::own_clock) at this many
    /// microseconds after 1970.
    pub fn freeze_clock(&self, micros: u64) -> Result<()> {
        anyhow::ensure!(self.site.spec.clock, "this server has no clock of its own");
        self.site.freeze(micros)
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

fn field<'a>(info: &'a Reply, key: &str) -> Option<&'a str> {
    info.text()?.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

//! The options of a Redis server.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;

use anyhow::{Context, Result};

use super::RedisServer;
use super::files::{PROGRAM, RedisFiles};
use crate::free_port;
use crate::launch::{Failure, on_free_ports};

/// When Redis forces its append-only file to disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendFsync {
    /// Before every reply.
    Always,
    /// Once a second. Acknowledged writes may be in memory only, so that a kill can lose them.
    EverySec,
    /// When the kernel decides.
    No,
}

/// The options of a [`RedisServer`].
#[derive(Clone)]
pub struct RedisBuilder {
    pub(super) program: PathBuf,
    pub(super) config: Vec<(String, String)>,
    primary: Option<SocketAddr>,
    dir: Option<PathBuf>,
    pub(super) clock: bool,
}

impl RedisBuilder {
    pub(super) fn new() -> Self {
        Self { program: PROGRAM.into(), config: Vec::new(), primary: None, dir: None, clock: false }
    }

    /// Enables the append-only file. Without it nothing survives a restart.
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

    /// Replicates from the server at `addr`: a [`Proxy`](crate::Proxy) there can cut the replication.
    pub fn replica_of_addr(mut self, addr: SocketAddr) -> Self {
        self.primary = Some(addr);
        self
    }

    /// Sets one line of `redis.conf`; a later one overrides an earlier one.
    pub fn config(mut self, key: &str, value: &str) -> Self {
        self.config.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Stores the data in `path`, which must exist and is not removed.
    pub fn dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.dir = Some(path.into());
        self
    }

    /// Gives the server its own wall clock; see [`RedisServer::step_clock`].
    pub fn own_clock(mut self) -> Self {
        self.clock = true;
        self
    }

    /// Starts the server and waits until it is ready.
    pub fn start(self) -> Result<RedisServer> {
        let home = tempfile::Builder::new()
            .prefix("testkit-redis-")
            .tempdir()
            .context("cannot create a directory for Redis")?;
        let dir = match &self.dir {
            Some(dir) => dir.clone(),
            None => home.path().join("data"),
        };
        if self.dir.is_none() {
            fs::create_dir(&dir).context("cannot create the data directory of Redis")?;
        }
        let files = RedisFiles { home, dir, spec: self };
        let (port, child) = on_free_ports(|| {
            let port = free_port().map_err(Failure::Other)?;
            Ok((port, files.launch(port, files.spec.primary)?))
        })?;
        let primary = Mutex::new(files.spec.primary);
        Ok(RedisServer { child: Mutex::new(child), primary, port, files })
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::MISSING;
    use super::*;

    #[test]
    fn a_missing_redis_server_says_how_to_get_one() {
        let mut builder = RedisServer::builder();
        builder.program = "no-such-redis-server".into();
        assert_eq!(builder.start().err().unwrap().to_string(), MISSING);
    }
}

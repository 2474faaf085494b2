//! The cases, one per file.

pub(crate) mod control;
pub(crate) mod embedded_cycle;
pub(crate) mod embedded_million;
pub(crate) mod embedded_renew;
pub(crate) mod media;
pub(crate) mod meet;
pub(crate) mod network_cycle;
pub(crate) mod network_expiry;
pub(crate) mod network_fight;
pub(crate) mod network_handover;
pub(crate) mod network_memory;
pub(crate) mod network_renew;
pub(crate) mod poll_cluster;
pub(crate) mod poll_rate;
pub(crate) mod poll_spread;
pub(crate) mod redis_cycle;
pub(crate) mod redis_handover;
pub(crate) mod redis_renew;
mod served;
pub(crate) mod sessions;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::contest::Plan;

/// The arguments of every case.
pub(crate) struct Bench<'a> {
    pub(crate) runtime: &'a Runtime,
    pub(crate) dir: &'a Path,
    pub(crate) seconds: u64,
    pub(crate) rounds: usize,
}

impl Bench<'_> {
    pub(crate) fn plan(&self, slice: Duration, wait_until_idle: bool) -> Plan {
        Plan { round: Duration::from_secs(self.seconds), rounds: self.rounds, slice, wait_until_idle }
    }

    /// An empty directory on the measured disk.
    pub(crate) fn folder(&self, name: &str) -> Result<TempDir> {
        tempfile::Builder::new()
            .prefix(&format!("tenure-bench-{name}-"))
            .tempdir_in(self.dir)
            .with_context(|| format!("cannot create a directory in {}", self.dir.display()))
    }
}

/// The store on a Redis server, without the quarantine after a possible loss of data.
fn store_url(server: &tenure_testkit::RedisServer) -> String {
    format!("{}?quarantine_ms=0", server.url())
}

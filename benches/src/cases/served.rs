//! The work of a Redis server per operation, from its own counters.

use std::time::Duration;

use anyhow::{Context, Result};
use tenure_testkit::RedisServer;

use crate::clock::cpu;
use crate::machine::{TICKS, of_process};
use crate::numbers::{plain, short};

/// Counts per operation.
pub(crate) struct Served {
    /// Script calls of clients.
    pub(crate) sent: f64,
    /// Commands that Redis ran, including those of scripts.
    pub(crate) ran: f64,
    /// CPU time of the server.
    server: Duration,
    /// CPU time of this process.
    client: Duration,
}

impl Served {
    pub(crate) const HEAD: [&'static str; 5] =
        ["per 1,000 operations", "script calls", "commands run", "Redis CPU per operation", "client CPU"];

    /// Runs `work` for a second and counts.
    pub(crate) fn by(server: &RedisServer, mut work: impl FnMut(Duration) -> Result<u64>) -> Result<Self> {
        let (used, before) = (cpu(), counted(server)?);
        let done = work(Duration::from_secs(1))?.max(1);
        let (used, after) = (cpu() - used, counted(server)?);
        let ticks = (after.ticks - before.ticks) as f64;
        Ok(Self {
            sent: (after.sent - before.sent) as f64 / done as f64,
            ran: (after.ran - before.ran) as f64 / done as f64,
            server: Duration::from_secs_f64(ticks / TICKS / done as f64),
            client: used.div_f64(done as f64),
        })
    }

    pub(crate) fn row(&self, name: &str) -> Vec<String> {
        vec![
            name.into(),
            plain(self.sent * 1e3),
            plain(self.ran * 1e3),
            short(self.server),
            short(self.client),
        ]
    }
}

struct Counted {
    sent: u64,
    ran: u64,
    ticks: u64,
}

fn counted(server: &RedisServer) -> Result<Counted> {
    let info = server.command(&["INFO", "everything"])?;
    let info = info.text().context("INFO returned no text")?;
    let number = |line: &str| line.split([',', '\r']).next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    let calls = |name: &str| {
        let start = format!("cmdstat_{name}:calls=");
        info.lines().find_map(|line| line.strip_prefix(&start)).map_or(0, number)
    };
    // Scripts cannot call scripts, so clients sent all of these.
    let scripts: u64 =
        ["eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"].map(calls).iter().sum();
    let ran = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:")).map_or(0, number);
    let ticks = of_process(server.pid()).context("the server's CPU time")?;
    Ok(Counted { sent: scripts, ran, ticks })
}

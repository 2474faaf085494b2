//! Facts about the machine, for the interpretation of results.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::clock::{Moment, cpu};
use crate::numbers::{Lags, short};

/// The `statfs` type of a file system in memory.
const TMPFS: u64 = 0x0102_1994;
const BLOCK: usize = 4_096;

/// Refuses a directory on a file system in memory, where a sync costs nothing.
pub(crate) fn on_disk(folder: &Path) -> Result<()> {
    let kind =
        rustix::fs::statfs(folder).with_context(|| format!("cannot inspect {}", folder.display()))?.f_type;
    if kind as u64 == TMPFS {
        bail!("{} is in memory; set --dir to a directory on a disk", folder.display());
    }
    Ok(())
}

/// One line about cores, memory, kernel and the disk under `folder`.
pub(crate) fn facts(folder: &Path) -> Result<String> {
    let model = first("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown CPU".into());
    let cores = std::thread::available_parallelism()?.get();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let memory = first("/proc/meminfo", "MemTotal").unwrap_or_default();
    let syncs = syncs(folder)?;
    Ok(format!(
        "{cores} cores ({model}), memory {memory}, Linux {}, fdatasync of 4 KiB p50 {} p99 {}",
        kernel.trim(),
        short(syncs.at(50.0)),
        short(syncs.at(99.0)),
    ))
}

fn first(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

/// The duration of an fdatasync of 4 KiB in an existing file.
fn syncs(folder: &Path) -> Result<Lags> {
    let file = tempfile::tempfile_in(folder).context("cannot create a temporary file")?;
    file.write_all_at(&vec![0; 256 * BLOCK], 0)?;
    file.sync_all()?;
    let one = |i: usize, file: &File| -> Result<Duration> {
        let start = Moment::now();
        file.write_all_at(&[i as u8; BLOCK], (i % 256 * BLOCK) as u64)?;
        file.sync_data()?;
        Ok(start.passed())
    };
    Ok(Lags::new((0..200).map(|i| one(i, &file)).collect::<Result<_>>()?))
}

/// Resident bytes of this process.
pub(crate) fn resident() -> Result<u64> {
    resident_of(std::process::id())
}

/// Resident bytes of a process.
pub(crate) fn resident_of(pid: u32) -> Result<u64> {
    let status = format!("/proc/{pid}/status");
    let text = first(&status, "VmRSS").context("VmRSS is missing")?;
    let kilobytes: u64 = text.trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes * 1_024)
}

/// CPU time of the threads of this process with this name.
pub(crate) fn threads(name: &str) -> Result<Duration> {
    let mut nanos = 0;
    for thread in fs::read_dir("/proc/self/task")? {
        let path = thread?.path();
        let comm = fs::read_to_string(path.join("comm")).unwrap_or_default();
        if comm.trim() == name {
            let stat = fs::read_to_string(path.join("schedstat")).unwrap_or_default();
            nanos += stat.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        }
    }
    Ok(Duration::from_nanos(nanos))
}

/// The CPU use of other processes while a case runs.
pub(crate) struct Others {
    start: Moment,
    ours: Duration,
    all: u64,
}

impl Others {
    pub(crate) fn watch() -> Self {
        Self { start: Moment::now(), ours: cpu(), all: busy() }
    }

    /// The share of all cores, in percent, that was used by processes other than this one and these servers.
    ///
    /// The servers must have been started after the watch.
    pub(crate) fn share(&self, servers: &[u32]) -> f64 {
        let ticks = busy().saturating_sub(self.all) as f64;
        let servers: u64 = servers.iter().filter_map(|pid| of_process(*pid)).sum();
        let ours = (cpu() - self.ours).as_secs_f64() * TICKS + servers as f64;
        let possible = self.start.passed().as_secs_f64() * TICKS * cores() as f64;
        ((ticks - ours) / possible * 100.0).max(0.0)
    }
}

/// Clock ticks per second in `/proc`, the same on all current Linux systems.
pub(crate) const TICKS: f64 = 100.0;

/// The number of cores of the machine; this process may be pinned to some of them.
fn cores() -> usize {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let is_core = |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| !rest.starts_with(' '));
    stat.lines().filter(is_core).count().max(1)
}

/// Busy ticks of all cores.
fn busy() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let numbers = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let numbers: Vec<u64> = numbers.filter_map(|n| n.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal
    numbers.iter().enumerate().filter(|(i, _)| !matches!(i, 3 | 4 | 8 | 9)).map(|(_, n)| n).sum()
}

/// CPU time of a process in ticks.
pub(crate) fn of_process(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let numbers: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(numbers.get(11)?.parse::<u64>().ok()? + numbers.get(12)?.parse::<u64>().ok()?)
}

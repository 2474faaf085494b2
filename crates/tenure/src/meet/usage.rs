//! CPU and memory usage of this process.

use std::fs;
use std::sync::Arc;

use parking_lot::Mutex;
use tenure_lease::{Clock, Tick};

/// The unit of CPU time in /proc.
const TICKS_PER_SECOND: u64 = 100;
const PAGE: u64 = 4_096;

/// Measures CPU (of all cores, since the last call) and memory usage, in percent.
pub(super) fn meter(clock: Arc<dyn Clock>) -> Arc<dyn Fn() -> (u32, u32) + Send + Sync> {
    let last: Mutex<Option<(Tick, u64)>> = Mutex::new(None);
    Arc::new(move || {
        let (now, used) = (clock.now(), cpu_ticks().unwrap_or_default());
        let before = last.lock().replace((now, used));
        let percent = before.map_or(0, |(at, before)| {
            let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
            let passed = now.since(at).as_millis() as u64 * TICKS_PER_SECOND / 1_000 * cores;
            (used.saturating_sub(before) * 100).checked_div(passed).unwrap_or_default().min(100)
        });
        (percent as u32, memory_percent().unwrap_or_default())
    })
}

/// CPU time in ticks.
fn cpu_ticks() -> Option<u64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name in parentheses may contain anything; numbers follow it.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// Memory usage in percent of the control group's limit, or of the machine's memory.
pub(super) fn memory_percent() -> Option<u32> {
    let statm = fs::read_to_string("/proc/self/statm").ok()?;
    let resident = statm.split_ascii_whitespace().nth(1)?.parse::<u64>().ok()? * PAGE;
    Some((resident * 100).checked_div(memory_limit()?)?.min(100) as u32)
}

/// The memory of the control group, or of the machine, in bytes.
pub(super) fn memory_limit() -> Option<u64> {
    let limit = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    limit.and_then(|text| text.trim().parse::<u64>().ok()).or_else(total_memory)
}

fn total_memory() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.split_ascii_whitespace().next()?.parse::<u64>().ok()? * 1_024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_store::BootClock;

    #[test]
    fn usage_is_a_percentage() {
        assert!(cpu_ticks().is_some());
        assert!(memory_percent().is_some_and(|percent| percent < 100));
        let meter = meter(Arc::new(BootClock));
        assert!(meter().0 <= 100 && meter().0 <= 100);
    }
}

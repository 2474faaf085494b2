//! Runs a range of seeds on all cores.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::clock;
use crate::linear::SearchStats;
use crate::plan::Plan;
use crate::run::run;
use crate::{disk, meet, redis};

/// Which seeds to run.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The first.
    pub from: u64,
    /// How many at most.
    pub count: u64,
    /// For how long at most.
    pub budget: Option<Duration>,
}

/// The result of a range.
#[derive(Clone, Debug, Default)]
pub struct SeedReport {
    /// How many seeds ran.
    pub seeds: u64,
    /// How many events their histories had.
    pub events: u64,
    /// How much the search for orders of operations examined, and where it gave up.
    pub order: SearchStats,
    /// How long it took.
    pub took: Duration,
    /// The smallest seed that failed, and how.
    pub failed: Option<(u64, Vec<String>)>,
}

/// Runs one seed: returns how many events it had and what the search for an order took, or what was wrong.
pub type SeedRunner = fn(u64) -> Result<(u64, SearchStats), Vec<String>>;

/// Hosts, clocks and a network around the keeper and the memory engine.
pub fn kernel(seed: u64) -> Result<(u64, SearchStats), Vec<String>> {
    let run = run(&Plan::of(seed));
    match run.violations.is_empty() {
        true => Ok((run.history.events.len() as u64, run.order)),
        false => Err(run.violations.iter().map(ToString::to_string).collect()),
    }
}

/// The embedded engine on a disk that tears, loses and refuses.
pub fn embedded(seed: u64) -> Result<(u64, SearchStats), Vec<String>> {
    match disk::run(seed) {
        Ok(stats) => Ok((stats.asked + stats.disk, stats.order)),
        Err(failure) => Err(vec![failure.message]),
    }
}

/// The Redis engine's scripts on one server, on Sentinel, or on Sentinel with the strict profile.
pub fn replicated(seed: u64) -> Result<(u64, SearchStats), Vec<String>> {
    match redis::run(seed) {
        Ok(stats) => Ok((stats.asked, stats.order)),
        Err(failure) => Err(vec![failure.message]),
    }
}

/// The roles of meetings and their clients, over one store.
pub fn meetings(seed: u64) -> Result<(u64, SearchStats), Vec<String>> {
    let run = meet::run(&meet::Plan::of(seed));
    match run.violations.is_empty() {
        true => Ok((run.events, SearchStats::default())),
        false => Err(run.violations.iter().map(ToString::to_string).collect()),
    }
}

/// Runs seeds until one fails, the range is done or the budget is used up. Calls `progress` about once a second.
pub fn run_seeds(world: SeedRunner, range: Range, progress: impl Fn(&SeedReport) + Sync) -> SeedReport {
    let run = Run {
        start: clock::start(),
        world,
        range,
        next: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        sum: Mutex::default(),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (run, progress) = (&run, &progress);
            scope.spawn(move || {
                let mut reported = Duration::ZERO;
                while run.one_more() {
                    if thread == 0 && run.start.elapsed() > reported + Duration::from_secs(1) {
                        reported = run.start.elapsed();
                        progress(&run.report());
                    }
                }
            });
        }
    });
    run.report()
}

/// What the threads of one run share.
struct Run {
    start: Instant,
    world: SeedRunner,
    range: Range,
    next: AtomicU64,
    stop: AtomicBool,
    sum: Mutex<SeedReport>,
}

impl Run {
    /// Runs the next seed. False when there is none, or no time for it.
    fn one_more(&self) -> bool {
        if self.stop.load(Ordering::Relaxed)
            || self.range.budget.is_some_and(|most| self.start.elapsed() >= most)
        {
            return false;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.range.count {
            return false;
        }
        let seed = self.range.from.wrapping_add(number);
        let came = (self.world)(seed);
        let mut sum = self.sum.lock();
        sum.seeds += 1;
        match came {
            Ok((events, looked)) => {
                sum.events += events;
                sum.order += looked;
            }
            Err(wrong) => {
                if sum.failed.as_ref().is_none_or(|(before, _)| seed < *before) {
                    sum.failed = Some((seed, wrong));
                }
                self.stop.store(true, Ordering::Relaxed);
            }
        }
        true
    }

    fn report(&self) -> SeedReport {
        SeedReport { took: self.start.elapsed(), ..self.sum.lock().clone() }
    }
}

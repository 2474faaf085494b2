//! Many seeds on all cores.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::clock;
use crate::linear::Looked;
use crate::plan::Plan;
use crate::run::run;
use crate::{disk, redis};

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

/// What came of a range.
#[derive(Debug, Default)]
pub struct Done {
    /// How many seeds ran.
    pub seeds: u64,
    /// How many events their histories had.
    pub events: u64,
    /// What the search for orders of operations looked at, and where it gave up.
    pub order: Looked,
    /// How long it took.
    pub took: Duration,
    /// The smallest seed that failed, and how.
    pub failed: Option<(u64, Vec<String>)>,
}

/// A world that seeds run in: how many events a seed had and what its order took, or what was wrong.
pub type OneWorld = fn(u64) -> Result<(u64, Looked), Vec<String>>;

/// Hosts, clocks and a network around the keeper and the memory engine.
pub fn kernel(seed: u64) -> Result<(u64, Looked), Vec<String>> {
    let run = run(&Plan::of(seed));
    match run.violations.is_empty() {
        true => Ok((run.history.events.len() as u64, run.order)),
        false => Err(run.violations.iter().map(ToString::to_string).collect()),
    }
}

/// The embedded engine on a disk that tears, loses and refuses.
pub fn embedded(seed: u64) -> Result<(u64, Looked), Vec<String>> {
    match disk::run(seed) {
        Ok(stats) => Ok((stats.asked + stats.disk, stats.order)),
        Err(failure) => Err(vec![failure.words]),
    }
}

/// A model of Redis: one server, Sentinel, or Sentinel with the strict profile.
pub fn replicated(seed: u64) -> Result<(u64, Looked), Vec<String>> {
    match redis::run(seed) {
        Ok(stats) => Ok((stats.asked, stats.order)),
        Err(failure) => Err(vec![failure.words]),
    }
}

/// Runs seeds until one fails, the range is done or the budget is used up. `progress` is told about once a
/// second.
pub fn many(world: OneWorld, range: Range, progress: impl Fn(&Done) + Sync) -> Done {
    let start = clock::start();
    let (next, seeds, events) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let order = Mutex::new(Looked::default());
    let stop = AtomicBool::new(false);
    let failed: Mutex<Option<(u64, Vec<String>)>> = Mutex::new(None);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let over = || stop.load(Ordering::Relaxed) || range.budget.is_some_and(|most| start.elapsed() >= most);
    let so_far = || Done {
        seeds: seeds.load(Ordering::Relaxed),
        events: events.load(Ordering::Relaxed),
        order: *order.lock(),
        took: start.elapsed(),
        failed: None,
    };
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (next, seeds, events, failed, stop) = (&next, &seeds, &events, &failed, &stop);
            let order = &order;
            let (over, so_far, progress) = (&over, &so_far, &progress);
            scope.spawn(move || {
                let mut told = Duration::ZERO;
                while !over() {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= range.count {
                        break;
                    }
                    let seed = range.from.wrapping_add(number);
                    let came = world(seed);
                    seeds.fetch_add(1, Ordering::Relaxed);
                    match came {
                        Ok((more, looked)) => {
                            events.fetch_add(more, Ordering::Relaxed);
                            *order.lock() += looked;
                        }
                        Err(wrong) => {
                            let mut failed = failed.lock();
                            if failed.as_ref().is_none_or(|(before, _)| seed < *before) {
                                *failed = Some((seed, wrong));
                            }
                            stop.store(true, Ordering::Relaxed);
                        }
                    }
                    if thread == 0 && start.elapsed() > told + Duration::from_secs(1) {
                        told = start.elapsed();
                        progress(&so_far());
                    }
                }
            });
        }
    });
    Done { failed: failed.into_inner(), ..so_far() }
}

//! The only file of this crate that reads a clock or sleeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A clock that counts suspend, so that a login code does not outlive its time on a laptop that slept.
#[derive(Clone, Debug, Default)]
pub struct Clock(Source);

/// Moves a clock made by [`Clock::manual`].
#[derive(Clone, Debug)]
pub struct ClockControl(Arc<ManualTime>);

/// The times of a manual clock, in nanoseconds.
#[derive(Debug)]
struct ManualTime {
    boot: AtomicU64,
    wall: AtomicU64,
}

/// Where a manual clock starts: an hour after boot, so that tests can subtract.
const MANUAL_BOOT: u64 = 3_600_000_000_000;
/// And in 2030.
const MANUAL_WALL: u64 = 1_900_000_000_000_000_000;

#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    Boot,
    Manual(Arc<ManualTime>),
}

impl Clock {
    /// A clock that only its control moves, for tests.
    pub fn manual() -> (Self, ClockControl) {
        let times =
            Arc::new(ManualTime { boot: AtomicU64::new(MANUAL_BOOT), wall: AtomicU64::new(MANUAL_WALL) });
        (Self(Source::Manual(times.clone())), ClockControl(times))
    }

    /// The time since an arbitrary start, the same for every clock of this machine.
    pub fn now(&self) -> Duration {
        match &self.0 {
            Source::Boot => {
                let time = clock_gettime(ClockId::Boottime);
                Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
            }
            Source::Manual(times) => Duration::from_nanos(times.boot.load(Ordering::Acquire)),
        }
    }

    /// The time since 1970, for what must be understood after a reboot. It may be set back or ahead.
    pub fn wall(&self) -> Duration {
        match &self.0 {
            Source::Boot => {
                let time = clock_gettime(ClockId::Realtime);
                Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), time.tv_nsec as u32)
            }
            Source::Manual(times) => Duration::from_nanos(times.wall.load(Ordering::Acquire)),
        }
    }
}

impl ClockControl {
    /// Moves the clock ahead.
    pub fn advance(&self, by: Duration) {
        let nanos = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.0.boot.fetch_add(nanos, Ordering::AcqRel);
        self.0.wall.fetch_add(nanos, Ordering::AcqRel);
    }

    /// Resets the time since boot; the wall clock continues.
    pub fn reboot(&self) {
        self.0.boot.store(MANUAL_BOOT, Ordering::Release);
    }
}

/// Sleeps. The waits of this crate are polls and client timeouts, which need not count suspend.
#[expect(clippy::disallowed_methods, reason = "the clock is where sleeping is allowed")]
pub(crate) fn sleep(time: Duration) -> tokio::time::Sleep {
    tokio::time::sleep(time)
}

/// The output of `work`, or `None` after `limit`.
pub(crate) async fn within<F: Future>(limit: Duration, work: F) -> Option<F::Output> {
    tokio::select! {
        biased;
        output = work => Some(output),
        () = sleep(limit) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_clock_moves_forward_and_the_manual_one_only_when_advanced() {
        let clock = Clock::default();
        let before = clock.now();
        assert!(clock.now() >= before);
        let (clock, control) = Clock::manual();
        let before = clock.now();
        assert_eq!(clock.now(), before);
        control.advance(Duration::from_secs(5));
        assert_eq!(clock.now() - before, Duration::from_secs(5));
    }

    #[tokio::test(start_paused = true)]
    async fn slow_work_times_out() {
        assert_eq!(within(Duration::from_secs(1), async { 7 }).await, Some(7));
        assert_eq!(within(Duration::from_secs(1), std::future::pending::<()>()).await, None);
    }
}

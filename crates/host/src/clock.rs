//! [`Clock`] on a real machine and under tokio's paused time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tenure_lease::{Clock, Sleep, Tick, Wall};

/// The longest single timer. Timers stop during suspend, so a long sleep reads the clock again at this interval
/// and ends at most this late after the machine resumes.
const RECHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The machine's clock that counts suspend (`CLOCK_BOOTTIME`).
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Tick {
        read(ClockId::Boottime)
    }

    fn wall(&self) -> Wall {
        Wall::from_micros(read(ClockId::Realtime).as_nanos() / 1_000)
    }

    fn sleep_until(&self, at: Tick) -> Sleep {
        Box::pin(async move {
            loop {
                let remaining = at.since(Self.now());
                if remaining.is_zero() {
                    return;
                }
                pause(remaining.min(RECHECK_INTERVAL)).await;
            }
        })
    }
}

fn read(id: ClockId) -> Tick {
    let time = clock_gettime(id);
    Tick::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[expect(clippy::disallowed_methods, reason = "clocks sleep for everything else")]
async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// A clock that follows tokio's, for tests under paused time.
///
/// [`TokioClock::step`] advances it without firing any timer, as after a suspend or a process stall.
#[derive(Debug)]
pub struct TokioClock {
    start: tokio::time::Instant,
    stepped: AtomicU64,
}

impl Default for TokioClock {
    #[expect(clippy::disallowed_methods, reason = "clocks read the time for everything else")]
    fn default() -> Self {
        Self { start: tokio::time::Instant::now(), stepped: AtomicU64::new(0) }
    }
}

impl TokioClock {
    /// Advances this clock.
    pub fn step(&self, by: Duration) {
        self.stepped.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Clock for TokioClock {
    #[expect(clippy::disallowed_methods, reason = "clocks read the time for everything else")]
    fn now(&self) -> Tick {
        let passed = tokio::time::Instant::now().duration_since(self.start);
        // Starts at one hour, so that tests can subtract.
        let stepped = Duration::from_nanos(self.stepped.load(Ordering::Relaxed));
        Tick::default() + Duration::from_secs(3_600) + passed + stepped
    }

    fn wall(&self) -> Wall {
        Wall::from_micros(1_700_000_000_000_000 + self.now().as_nanos() / 1_000)
    }

    fn sleep_until(&self, at: Tick) -> Sleep {
        let remaining = at.since(self.now());
        Box::pin(async move {
            if !remaining.is_zero() {
                pause(remaining).await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_clock_never_goes_back() {
        let before = BootClock.now();
        assert!(BootClock.now() >= before);
        assert!(BootClock.wall().as_micros() > 1_600_000_000_000_000);
    }

    #[tokio::test(start_paused = true)]
    async fn the_tokio_clock_follows_paused_time_and_steps_without_firing_timers() {
        let clock = TokioClock::default();
        let start = clock.now();
        clock.sleep_until(start + Duration::from_secs(5)).await;
        assert!(clock.now().since(start) >= Duration::from_secs(5));
        clock.step(Duration::from_secs(60));
        assert!(clock.now().since(start) >= Duration::from_secs(65));
    }
}

//! The clocks of real machines and of tests. The only file that reads one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lease::{Clock, Entropy, Sleep, Tick, Wall};
use rustix::time::{ClockId, clock_gettime};

/// How long a timer is trusted at once. Timers stop during suspend, so a long sleep looks at the clock this
/// often and ends at most this late after the machine wakes.
const LOOK: Duration = Duration::from_millis(500);

/// The machine's clock that counts suspend (`CLOCK_BOOTTIME`).
#[derive(Clone, Copy, Debug, Default)]
pub struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Tick {
        nanos(ClockId::Boottime)
    }

    fn wall(&self) -> Wall {
        Wall::from_micros(nanos(ClockId::Realtime).as_nanos() / 1_000)
    }

    fn sleep_until(&self, at: Tick) -> Sleep {
        Box::pin(async move {
            loop {
                let left = at.since(Self.now());
                if left.is_zero() {
                    return;
                }
                pause(left.min(LOOK)).await;
            }
        })
    }
}

fn nanos(id: ClockId) -> Tick {
    let time = clock_gettime(id);
    Tick::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[expect(clippy::disallowed_methods, reason = "the clock is where sleeping is allowed")]
async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

/// A clock that follows tokio's, so that tests under paused time run as fast as they can.
///
/// [`TokioClock::step`] moves it without letting any timer fire, as a suspended machine or a stalled process
/// would see it.
#[derive(Debug)]
pub struct TokioClock {
    start: tokio::time::Instant,
    stepped: AtomicU64,
}

impl Default for TokioClock {
    #[expect(clippy::disallowed_methods, reason = "the clock is where time is read")]
    fn default() -> Self {
        Self { start: tokio::time::Instant::now(), stepped: AtomicU64::new(0) }
    }
}

impl TokioClock {
    /// Moves this clock ahead.
    pub fn step(&self, by: Duration) {
        self.stepped.fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Clock for TokioClock {
    #[expect(clippy::disallowed_methods, reason = "the clock is where time is read")]
    fn now(&self) -> Tick {
        let passed = tokio::time::Instant::now().duration_since(self.start);
        // An hour ahead of zero, so that tests may look back.
        let stepped = Duration::from_nanos(self.stepped.load(Ordering::Relaxed));
        Tick::default() + Duration::from_secs(3_600) + passed + stepped
    }

    fn wall(&self) -> Wall {
        Wall::from_micros(1_700_000_000_000_000 + self.now().as_nanos() / 1_000)
    }

    fn sleep_until(&self, at: Tick) -> Sleep {
        let left = at.since(self.now());
        Box::pin(async move {
            if !left.is_zero() {
                pause(left).await;
            }
        })
    }
}

/// The operating system's generator.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        use rand::Rng;
        rand::rng().fill_bytes(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_clock_goes_forward() {
        let before = BootClock.now();
        assert!(BootClock.now() >= before);
        assert!(BootClock.wall().as_micros() > 1_600_000_000_000_000);
    }

    #[tokio::test(start_paused = true)]
    async fn the_tokio_clock_follows_paused_time_and_steps_without_timers() {
        let clock = TokioClock::default();
        let start = clock.now();
        clock.sleep_until(start + Duration::from_secs(5)).await;
        assert!(clock.now().since(start) >= Duration::from_secs(5));
        clock.step(Duration::from_secs(60));
        assert!(clock.now().since(start) >= Duration::from_secs(65));
    }
}

//! The clock of one host: true time at a rate of its own.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tenure_lease::{Clock, Sleep, Tick, Wall};

use super::{HostId, Item, Simulation};
use crate::history::Nanos;

/// Microseconds since the epoch at the start of a run.
const EPOCH: u64 = 1_700_000_000_000_000;

/// A host's clock. Clones are the same clock.
#[derive(Clone)]
pub(crate) struct HostClock {
    inner: Arc<ClockState>,
}

struct ClockState {
    simulation: Arc<Simulation>,
    host: HostId,
    /// How many ticks of a million it is ahead of true time, or behind.
    ppm: i64,
    /// What it showed at the start.
    base: u64,
    /// Does not count suspend: a known break.
    blind: bool,
    suspended: Arc<AtomicU64>,
    wall_off: Arc<AtomicU64>,
}

impl HostClock {
    pub(crate) fn new(simulation: &Arc<Simulation>, host: HostId, ppm: i64, base: u64, blind: bool) -> Self {
        let (suspended, wall_off) = {
            let mut state = simulation.lock();
            let host = state.host(host);
            (host.suspended.clone(), host.wall_off.clone())
        };
        let simulation = simulation.clone();
        Self { inner: Arc::new(ClockState { simulation, host, ppm, base, blind, suspended, wall_off }) }
    }

    fn ticks(&self, time: u64) -> u64 {
        (i128::from(time) + i128::from(time) * i128::from(self.inner.ppm) / 1_000_000) as u64
    }

    /// How much true time passes while this clock counts `ticks`, rounded up.
    pub(crate) fn true_span(&self, ticks: u64) -> Nanos {
        let rate = 1_000_000 + i128::from(self.inner.ppm);
        ((i128::from(ticks) * 1_000_000 + rate - 1) / rate) as u64
    }

    /// When this clock will show `at`, in true time; now if it has.
    pub(crate) fn true_time(&self, at: Tick) -> Nanos {
        let left = at.as_nanos().saturating_sub(self.now().as_nanos());
        self.inner.simulation.now().saturating_add(self.true_span(left))
    }
}

impl Clock for HostClock {
    fn now(&self) -> Tick {
        let mut time = self.inner.simulation.now();
        if self.inner.blind {
            time -= self.inner.suspended.load(Ordering::Relaxed);
        }
        Tick::from_nanos(self.inner.base + self.ticks(time))
    }

    fn wall(&self) -> Wall {
        let off = self.inner.wall_off.load(Ordering::Relaxed);
        Wall::from_micros((EPOCH + self.ticks(self.inner.simulation.now()) / 1_000).wrapping_add(off))
    }

    fn sleep_until(&self, at: Tick) -> Sleep {
        Box::pin(Sleeper { clock: self.clone(), at, alarm: None })
    }
}

/// Wakes a sleeper once.
pub(crate) struct Alarm {
    waker: Mutex<Option<Waker>>,
}

impl Alarm {
    pub(crate) fn ring(&self) {
        if let Some(waker) = self.waker.lock().take() {
            waker.wake();
        }
    }

    /// Whether a task still sleeps.
    pub(crate) fn set(&self) -> bool {
        self.waker.lock().is_some()
    }
}

struct Sleeper {
    clock: HostClock,
    at: Tick,
    alarm: Option<Arc<Alarm>>,
}

impl Future for Sleeper {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.clock.now() >= self.at {
            return Poll::Ready(());
        }
        if let Some(alarm) = &self.alarm {
            let mut waker = alarm.waker.lock();
            if let Some(waker) = &mut *waker {
                waker.clone_from(cx.waker());
                return Poll::Pending;
            }
        }
        let alarm = Arc::new(Alarm { waker: Mutex::new(Some(cx.waker().clone())) });
        let inner = &self.clock.inner;
        let when = self.clock.true_time(self.at).max(inner.simulation.now() + 1);
        inner.simulation.lock().schedule(when, Item::Alarm(inner.host, alarm.clone()));
        self.alarm = Some(alarm);
        Poll::Pending
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        if let Some(alarm) = &self.alarm {
            alarm.waker.lock().take();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::history::Setting;
    use crate::rng::Rng;

    fn simulation() -> Arc<Simulation> {
        Simulation::new(2, Rng::new(1), Setting::default())
    }

    #[test]
    fn a_clock_runs_at_its_own_rate_and_back_again() {
        let simulation = simulation();
        for ppm in [-100_000, -4_000, 0, 4_000, 100_000] {
            let clock = HostClock::new(&simulation, 1, ppm, 77, false);
            simulation.advance(0);
            let deadline = clock.now() + Duration::from_millis(1_234);
            let when = clock.true_time(deadline);
            simulation.advance(when);
            assert!(clock.now() >= deadline, "{ppm}");
            simulation.advance(when - 2);
            assert!(clock.now() < deadline, "{ppm}");
        }
    }

    #[test]
    fn suspend_counts_unless_the_clock_is_blind() {
        let simulation = simulation();
        let clocks = [false, true].map(|blind| HostClock::new(&simulation, 1, 0, 0, blind));
        simulation.advance(1_000);
        simulation.lock().host(1).suspended.store(400, Ordering::Relaxed);
        assert_eq!(clocks.map(|clock| clock.now().as_nanos()), [1_000, 600]);
    }
}

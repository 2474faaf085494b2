//! The clock of one machine, moved by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure_lease::{Clock, Sleep, Tick, Wall};

/// True time, shared by all clocks of a run, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Time(Arc<AtomicU64>);

impl Time {
    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn advance(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// Moves on to a moment that another clock shows.
    pub(crate) fn come_to(&self, at: u64) {
        self.0.fetch_max(at, Ordering::Relaxed);
    }
}

/// A clock that keeps true time from its machine's start on. Its wall clock may be wrong.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    time: Time,
    /// True time at the machine's start.
    booted: u64,
    /// What the wall clock showed then, in microseconds.
    wall: u64,
}

impl Machine {
    pub(crate) fn boot(time: &Time, wall: u64) -> Self {
        Self { time: time.clone(), booted: time.now(), wall }
    }
}

impl Clock for Machine {
    fn now(&self) -> Tick {
        Tick::from_nanos(1_000_000_000 + self.time.now() - self.booted)
    }

    fn wall(&self) -> Wall {
        Wall::from_micros(self.wall + (self.time.now() - self.booted) / 1_000)
    }

    /// It ends when it is polled after that time; it wakes no task.
    fn sleep_until(&self, at: Tick) -> Sleep {
        let clock = self.clone();
        Box::pin(std::future::poll_fn(move |_| match clock.now() >= at {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }))
    }
}

//! Time as the load generators see it. The only file that reads a clock.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A moment of real time.
#[derive(Clone, Copy)]
pub(crate) struct Moment(Instant);

impl Moment {
    #[expect(clippy::disallowed_methods, reason = "a measurement reads real time")]
    pub(crate) fn now() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn passed(self) -> Duration {
        Self::now().0.saturating_duration_since(self.0)
    }

    /// How long after `earlier` this moment is; zero when it is before.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    pub(crate) fn plus(self, by: Duration) -> Self {
        Self(self.0 + by)
    }
}

/// The end of a slice.
#[derive(Clone, Copy)]
pub(crate) struct Until(Moment);

impl Until {
    pub(crate) fn after(time: Duration) -> Self {
        Self(Moment::now().plus(time))
    }

    pub(crate) fn over(self) -> bool {
        Moment::now().0 >= self.0.0
    }
}

/// User and system time that this process has used.
pub(crate) fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// User and system time that this thread has used.
pub(crate) fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Blocks this thread.
#[expect(clippy::disallowed_methods, reason = "called outside async code only")]
pub(crate) fn nap(time: Duration) {
    std::thread::sleep(time);
}

/// Waits in async code.
#[expect(clippy::disallowed_methods, reason = "a measurement paces itself in real time")]
pub(crate) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

//! A timer on the clock that counts suspend: it fires right after the machine wakes, where an ordinary timeout would still
//! wait for the suspended time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tenure_lease::Tick;

/// A timer that becomes readable at a tick of [`tenure_store::BootClock`].
pub(super) struct Alarm {
    timer: OwnedFd,
}

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { timer: timerfd_create(TimerfdClockId::Boottime, flags)? })
    }

    /// Fires at `at`, at once if that has passed. Replaces the previous time.
    pub(super) fn set(&self, at: Tick) -> io::Result<()> {
        // Zero would mean never.
        let nanos = at.as_nanos().clamp(1, i64::MAX as u64);
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value =
            Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
        let spec = Itimerspec { it_interval: never, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &spec)?;
        Ok(())
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

//! Device time: 32-bit milliseconds that wrap after 49 days.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Clock, Tick};

/// A point in device time. Comparisons are correct for points less than 24 days apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct UptimeMs(pub u32);

impl UptimeMs {
    /// Adds milliseconds, wrapping if necessary.
    #[must_use]
    pub(crate) const fn plus(self, millis: u32) -> Self {
        Self(self.0.wrapping_add(millis))
    }

    /// Whether `now` is at or past this point.
    pub(crate) const fn reached(self, now: Self) -> bool {
        now.0.wrapping_sub(self.0).cast_signed() >= 0
    }

    /// The time until this point; zero once it is reached.
    pub(crate) const fn left(self, now: Self) -> u32 {
        let left = self.0.wrapping_sub(now.0).cast_signed();
        if left > 0 { left.cast_unsigned() } else { 0 }
    }

    /// The time since this point; zero if it is in the future.
    pub(crate) const fn ago(self, now: Self) -> u32 {
        now.left(self)
    }
}

/// Device time on a clock that counts suspend.
#[derive(Clone)]
pub(crate) struct Uptime {
    clock: Arc<dyn Clock>,
    start: Tick,
    offset: u32,
}

impl Uptime {
    /// Starts at `offset`, which is nonzero only in tests of the wrap.
    pub(crate) fn new(clock: Arc<dyn Clock>, offset: u32) -> Self {
        Self { start: clock.now(), clock, offset }
    }

    pub(crate) fn now(&self) -> UptimeMs {
        // Intentionally wraps to the low 32 bits.
        UptimeMs(self.elapsed().as_millis() as u32).plus(self.offset)
    }

    /// Time since the start, which does not wrap.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.now().since(self.start)
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Sleeps for `wait`.
    pub(crate) async fn sleep(&self, wait: Duration) {
        self.clock.sleep_until(self.clock.now() + wait).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn remaining_time_is_correct_over_the_wrap() {
        let start = UptimeMs(u32::MAX - 1_999);
        let end = start.plus(5_000);
        assert_eq!(end, UptimeMs(3_000));
        assert_eq!(end.left(start), 5_000);
        assert_eq!(end.left(start.plus(1_999)), 3_001);
        assert_eq!(end.left(start.plus(2_000)), 3_000);
        assert_eq!(end.left(start.plus(4_999)), 1);
        assert!(!end.reached(start.plus(4_999)));
        assert!(end.reached(start.plus(5_000)) && end.reached(start.plus(1_000_000)));
        assert_eq!(end.left(start.plus(5_001)), 0);
    }

    proptest! {
        #[test]
        fn a_point_is_reached_exactly_when_no_time_remains(start: u32, ttl in 0u32..1 << 30, passed in 0u32..1 << 30) {
            let (end, now) = (UptimeMs(start).plus(ttl), UptimeMs(start).plus(passed));
            prop_assert_eq!(end.reached(now), passed >= ttl);
            prop_assert_eq!(end.left(now), ttl.saturating_sub(passed));
            prop_assert_eq!(end.reached(now), end.left(now) == 0);
        }
    }
}

//! Milliseconds as the device counts them: 32 bits that wrap after 49 days.

use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Tick};

/// A point in device time. Comparisons are right as long as the two points are less than 24 days apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ms(pub u32);

impl Ms {
    /// This much later, over the wrap if need be.
    #[must_use]
    pub(crate) const fn plus(self, millis: u32) -> Self {
        Self(self.0.wrapping_add(millis))
    }

    /// Whether `now` is at or past this point.
    pub(crate) const fn reached(self, now: Self) -> bool {
        now.0.wrapping_sub(self.0).cast_signed() >= 0
    }

    /// How much is left until this point; zero once it is reached.
    pub(crate) const fn left(self, now: Self) -> u32 {
        let left = self.0.wrapping_sub(now.0).cast_signed();
        if left > 0 { left.cast_unsigned() } else { 0 }
    }

    /// How long ago this point was; zero if it is ahead.
    pub(crate) const fn ago(self, now: Self) -> u32 {
        now.left(self)
    }
}

/// Device time on a clock that counts suspend.
#[derive(Clone)]
pub(crate) struct Uptime {
    clock: Arc<dyn Clock>,
    born: Tick,
    offset: u32,
}

impl Uptime {
    /// Starts at `offset`, which is zero outside tests of the wrap.
    pub(crate) fn new(clock: Arc<dyn Clock>, offset: u32) -> Self {
        Self { born: clock.now(), clock, offset }
    }

    pub(crate) fn now(&self) -> Ms {
        // The wrap is the point: only the low 32 bits count.
        Ms(self.passed().as_millis() as u32).plus(self.offset)
    }

    /// Time since the start, which does not wrap.
    pub(crate) fn passed(&self) -> Duration {
        self.clock.now().since(self.born)
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Ends after `wait`.
    pub(crate) async fn sleep(&self, wait: Duration) {
        self.clock.sleep_until(self.clock.now() + wait).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn time_left_is_right_over_the_wrap() {
        let start = Ms(u32::MAX - 1_999);
        let end = start.plus(5_000);
        assert_eq!(end, Ms(3_000));
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
        fn a_point_is_reached_exactly_when_nothing_is_left(start: u32, ttl in 0u32..1 << 30, passed in 0u32..1 << 30) {
            let (end, now) = (Ms(start).plus(ttl), Ms(start).plus(passed));
            prop_assert_eq!(end.reached(now), passed >= ttl);
            prop_assert_eq!(end.left(now), ttl.saturating_sub(passed));
            prop_assert_eq!(end.reached(now), end.left(now) == 0);
        }
    }
}

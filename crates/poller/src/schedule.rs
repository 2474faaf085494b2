//! When to poll next. Pure functions: time and random numbers are arguments.

use std::time::Duration;

/// Longest delay of a target's first poll, so that a takeover leaves no long gap.
const FIRST_DELAY_MAX: Duration = Duration::from_secs(5);

/// The recent failures of a target, which determine its next poll.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schedule {
    failures: u32,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A full poll after this delay.
    Poll(Duration),
    /// A probe after this delay, because the target is down.
    Probe(Duration),
}

/// The timing settings of a target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollTiming {
    pub(crate) interval: Duration,
    pub(crate) down_after: u32,
    pub(crate) backoff_max: Duration,
}

impl Schedule {
    /// The delay before the first poll: anywhere in the interval, so that targets acquired together spread out.
    pub(crate) fn first_delay(timing: PollTiming, random: f64) -> Duration {
        timing.interval.min(FIRST_DELAY_MAX).mul_f64(random.clamp(0.0, 1.0))
    }

    /// After a successful poll that took `took`. The interval counts from its start.
    pub(crate) fn after_success(&mut self, timing: PollTiming, took: Duration, random: f64) -> Next {
        self.failures = 0;
        Next::Poll(jittered(timing.interval, random).saturating_sub(took))
    }

    /// After a failed poll or probe: the delay doubles each time, up to the bound.
    pub(crate) fn after_failure(&mut self, timing: PollTiming, random: f64) -> Next {
        self.failures = self.failures.saturating_add(1);
        let doubled = timing.interval.saturating_mul(1 << self.failures.min(16));
        let wait = jittered(doubled.min(timing.backoff_max.max(timing.interval)), random);
        if self.is_down(timing) { Next::Probe(wait) } else { Next::Poll(wait) }
    }

    /// After a successful probe of a target that was down: poll at once.
    pub(crate) fn after_probe(&mut self) -> Next {
        Next::Poll(Duration::ZERO)
    }

    pub(crate) fn is_down(&self, timing: PollTiming) -> bool {
        self.failures >= timing.down_after
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }
}

/// 95 to 105 % of a delay: polls that coincide drift apart, and the mean stays the same.
fn jittered(wait: Duration, random: f64) -> Duration {
    wait.mul_f64(0.95 + 0.1 * random.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: PollTiming =
        PollTiming { interval: Duration::from_secs(4), down_after: 3, backoff_max: Duration::from_secs(20) };

    #[test]
    fn the_interval_counts_from_the_start_of_a_poll_and_is_jittered() {
        let mut schedule = Schedule::default();
        let took = Duration::from_millis(500);
        assert_eq!(schedule.after_success(TIMING, took, 0.0), Next::Poll(Duration::from_millis(3_300)));
        assert_eq!(schedule.after_success(TIMING, took, 1.0), Next::Poll(Duration::from_millis(3_700)));
        assert_eq!(schedule.after_success(TIMING, Duration::from_secs(9), 0.5), Next::Poll(Duration::ZERO));
    }

    #[test]
    fn failures_double_the_wait_up_to_a_bound_and_become_probes() {
        let mut schedule = Schedule::default();
        let waits: Vec<_> = (0..5).map(|_| schedule.after_failure(TIMING, 0.5)).collect();
        let secs = Duration::from_secs;
        assert_eq!(
            waits,
            [
                Next::Poll(secs(8)),
                Next::Poll(secs(16)),
                Next::Probe(secs(20)),
                Next::Probe(secs(20)),
                Next::Probe(secs(20))
            ]
        );
        assert!(schedule.is_down(TIMING));
        assert_eq!(schedule.after_probe(), Next::Poll(Duration::ZERO));
        assert_eq!(schedule.after_success(TIMING, Duration::ZERO, 0.5), Next::Poll(secs(4)));
        assert!(!schedule.is_down(TIMING));
    }

    #[test]
    fn a_failing_target_is_not_polled_more_often_than_its_interval() {
        let timing = PollTiming { interval: Duration::from_secs(120), ..TIMING };
        assert_eq!(Schedule::default().after_failure(timing, 0.5), Next::Poll(Duration::from_secs(120)));
    }

    #[test]
    fn targets_acquired_together_spread_out() {
        let mut slots = [0; 10];
        for i in 0..1_000 {
            let first = Schedule::first_delay(TIMING, f64::from(i) / 1_000.0);
            slots[(first.as_millis() / 400) as usize] += 1;
        }
        assert!(slots.iter().all(|n| (90..=110).contains(n)), "{slots:?}");
        assert!(
            Schedule::first_delay(PollTiming { interval: Duration::from_secs(120), ..TIMING }, 1.0)
                <= FIRST_DELAY_MAX
        );
    }
}

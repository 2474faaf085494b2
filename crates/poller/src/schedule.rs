//! When to poll next. Pure: time and chance are handed in.

use std::time::Duration;

/// The most that the first poll of a target waits, so that a takeover leaves no long gap.
const FIRST: Duration = Duration::from_secs(5);

/// How a target has been doing, and what follows for the next poll.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schedule {
    failures: u32,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A whole poll, after this long.
    Poll(Duration),
    /// A light probe, because the target is down.
    Probe(Duration),
}

/// What a schedule goes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) interval: Duration,
    pub(crate) down_after: u32,
    pub(crate) backoff_max: Duration,
}

impl Schedule {
    /// The wait before the first poll: anywhere in the interval, so that targets taken together spread out.
    pub(crate) fn first(pace: Pace, chance: f64) -> Duration {
        pace.interval.min(FIRST).mul_f64(chance.clamp(0.0, 1.0))
    }

    /// After a poll that worked and took `took`. The interval counts from its start.
    pub(crate) fn good(&mut self, pace: Pace, took: Duration, chance: f64) -> Next {
        self.failures = 0;
        Next::Poll(jittered(pace.interval, chance).saturating_sub(took))
    }

    /// After a poll or probe that failed: twice the wait each time, within the bound.
    pub(crate) fn bad(&mut self, pace: Pace, chance: f64) -> Next {
        self.failures = self.failures.saturating_add(1);
        let doubled = pace.interval.saturating_mul(1 << self.failures.min(16));
        let wait = jittered(doubled.min(pace.backoff_max.max(pace.interval)), chance);
        if self.is_down(pace) { Next::Probe(wait) } else { Next::Poll(wait) }
    }

    /// A probe of a target that was down was answered: poll at once.
    pub(crate) fn answered(&mut self) -> Next {
        Next::Poll(Duration::ZERO)
    }

    pub(crate) fn is_down(&self, pace: Pace) -> bool {
        self.failures >= pace.down_after
    }

    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }
}

/// 95 to 105 % of a wait: polls that fell together drift apart, and the mean stays.
fn jittered(wait: Duration, chance: f64) -> Duration {
    wait.mul_f64(0.95 + 0.1 * chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace =
        Pace { interval: Duration::from_secs(4), down_after: 3, backoff_max: Duration::from_secs(20) };

    #[test]
    fn the_interval_counts_from_the_start_of_a_poll_and_is_jittered() {
        let mut schedule = Schedule::default();
        let took = Duration::from_millis(500);
        assert_eq!(schedule.good(PACE, took, 0.0), Next::Poll(Duration::from_millis(3_300)));
        assert_eq!(schedule.good(PACE, took, 1.0), Next::Poll(Duration::from_millis(3_700)));
        assert_eq!(schedule.good(PACE, Duration::from_secs(9), 0.5), Next::Poll(Duration::ZERO));
    }

    #[test]
    fn failures_double_the_wait_up_to_a_bound_and_become_probes() {
        let mut schedule = Schedule::default();
        let waits: Vec<_> = (0..5).map(|_| schedule.bad(PACE, 0.5)).collect();
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
        assert!(schedule.is_down(PACE));
        assert_eq!(schedule.answered(), Next::Poll(Duration::ZERO));
        assert_eq!(schedule.good(PACE, Duration::ZERO, 0.5), Next::Poll(secs(4)));
        assert!(!schedule.is_down(PACE));
    }

    #[test]
    fn a_slow_target_is_not_asked_more_often_because_it_fails() {
        let pace = Pace { interval: Duration::from_secs(120), ..PACE };
        assert_eq!(Schedule::default().bad(pace, 0.5), Next::Poll(Duration::from_secs(120)));
    }

    #[test]
    fn targets_taken_together_do_not_bunch() {
        let mut slots = [0; 10];
        for i in 0..1_000 {
            let first = Schedule::first(PACE, f64::from(i) / 1_000.0);
            slots[(first.as_millis() / 400) as usize] += 1;
        }
        assert!(slots.iter().all(|n| (90..=110).contains(n)), "{slots:?}");
        assert!(Schedule::first(Pace { interval: Duration::from_secs(120), ..PACE }, 1.0) <= FIRST);
    }
}

//! The circuit breaker in front of the store: closed → open → half-open → closed.

use std::time::Duration;

use tenure_lease::Tick;

/// Consecutive failures that open it.
const FAILURES: u32 = 3;
/// How long it stays open before a probe.
pub(crate) const OPEN: Duration = Duration::from_secs(5);
/// How long a call to the store may take.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// The state of the breaker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Closed { failures: u32 },
    Open { until: Tick },
    HalfOpen,
}

/// The circuit breaker of one process. All writes pass it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CircuitBreaker {
    state: State,
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self { state: State::Closed { failures: 0 } }
    }
}

impl CircuitBreaker {
    /// Whether the store may be called now. After the pause one call is allowed as a probe.
    pub fn allows(&mut self, now: Tick) -> bool {
        match self.state {
            State::Closed { .. } => true,
            State::Open { until } if now >= until => {
                self.state = State::HalfOpen;
                true
            }
            State::Open { .. } | State::HalfOpen => false,
        }
    }

    /// A call succeeded.
    pub fn succeeded(&mut self) {
        self.state = State::Closed { failures: 0 };
    }

    /// A call failed or timed out.
    pub fn failed(&mut self, now: Tick) {
        self.state = match self.state {
            State::Closed { failures } if failures + 1 < FAILURES => State::Closed { failures: failures + 1 },
            _ => State::Open { until: now + OPEN },
        };
    }

    /// The probe was not made.
    pub fn probe_abandoned(&mut self, now: Tick) {
        if self.state == State::HalfOpen {
            self.state = State::Open { until: now };
        }
    }

    /// Whether the store is considered available.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed { .. })
    }

    /// The name in logs and metrics.
    pub fn as_str(&self) -> &'static str {
        match self.state {
            State::Closed { .. } => "closed",
            State::Open { .. } => "open",
            State::HalfOpen => "half_open",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Tick {
        Tick::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn three_consecutive_failures_open_it() {
        let mut breaker = CircuitBreaker::default();
        for _ in 0..10 {
            breaker.failed(at(0));
            breaker.failed(at(0));
            assert!(breaker.allows(at(0)) && breaker.is_closed());
            breaker.succeeded();
        }
        (0..3).for_each(|_| breaker.failed(at(0)));
        assert_eq!((breaker.allows(at(4_999)), breaker.as_str()), (false, "open"));
    }

    #[test]
    fn after_the_pause_one_probe_decides() {
        let mut breaker = CircuitBreaker::default();
        (0..3).for_each(|_| breaker.failed(at(0)));
        assert!(breaker.allows(at(5_000)), "one probe");
        assert!(!breaker.allows(at(5_000)), "the others wait");
        assert_eq!(breaker.as_str(), "half_open");
        breaker.failed(at(5_100));
        assert!(!breaker.allows(at(10_099)) && breaker.allows(at(10_100)));
        breaker.succeeded();
        assert!(breaker.allows(at(10_100)) && breaker.allows(at(10_100)));
    }

    #[test]
    fn an_abandoned_probe_leaves_it_to_another_caller() {
        let mut breaker = CircuitBreaker::default();
        (0..3).for_each(|_| breaker.failed(at(0)));
        assert!(breaker.allows(at(5_000)));
        breaker.probe_abandoned(at(5_000));
        assert!(breaker.allows(at(5_000)));
    }
}

//! The circuit breaker before the store: closed → open → half-open → closed.

use std::time::Duration;

use lease::Tick;

/// Failures in a row that open it.
const FAILURES: u32 = 3;
/// How long it stays open before one may try.
pub(crate) const OPEN: Duration = Duration::from_secs(5);
/// How long an answer of the store is waited for.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// Whether the store is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Closed { failures: u32 },
    Open { until: Tick },
    HalfOpen,
}

/// The breaker of one process. Everything that is written goes through it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Breaker {
    state: State,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { state: State::Closed { failures: 0 } }
    }
}

impl Breaker {
    /// Whether the store may be asked now. After the pause one may, and the others wait for what it finds.
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

    /// The store answered.
    pub fn succeeded(&mut self) {
        self.state = State::Closed { failures: 0 };
    }

    /// The store did not answer, or not with what it should.
    pub fn failed(&mut self, now: Tick) {
        self.state = match self.state {
            State::Closed { failures } if failures + 1 < FAILURES => State::Closed { failures: failures + 1 },
            _ => State::Open { until: now + OPEN },
        };
    }

    /// Who was allowed to try did not come to it.
    pub fn gave_up(&mut self, now: Tick) {
        if self.state == State::HalfOpen {
            self.state = State::Open { until: now };
        }
    }

    /// Whether the store is taken to be there.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed { .. })
    }

    /// The word for logs and metrics.
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
    fn three_failures_in_a_row_open_it_and_fewer_do_not() {
        let mut breaker = Breaker::default();
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
    fn after_the_pause_one_tries_and_its_success_closes() {
        let mut breaker = Breaker::default();
        (0..3).for_each(|_| breaker.failed(at(0)));
        assert!(breaker.allows(at(5_000)), "one tries");
        assert!(!breaker.allows(at(5_000)), "the others wait");
        assert_eq!(breaker.as_str(), "half_open");
        breaker.failed(at(5_100));
        assert!(!breaker.allows(at(10_099)) && breaker.allows(at(10_100)));
        breaker.succeeded();
        assert!(breaker.allows(at(10_100)) && breaker.allows(at(10_100)));
    }

    #[test]
    fn who_gives_up_its_try_leaves_it_to_another() {
        let mut breaker = Breaker::default();
        (0..3).for_each(|_| breaker.failed(at(0)));
        assert!(breaker.allows(at(5_000)));
        breaker.gave_up(at(5_000));
        assert!(breaker.allows(at(5_000)));
    }
}

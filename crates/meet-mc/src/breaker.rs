//! The circuit breaker in front of the store. It opens after a few failures; while it is open only its prober calls the store,
//! once a second, and closes it with the first answer.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Key, Op, Ttl};

use crate::ledger::{ControllerState, call_store};

/// Consecutive failures that open it.
const FAILURES: u32 = 3;
/// The interval of probes while it is open.
pub(crate) const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// How long a probe may take.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the record of a probe is kept.
const PROBE_TTL: Duration = Duration::from_secs(10);

/// The circuit breaker of one process. All calls of meetings to the store pass it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CircuitBreaker {
    failures: u32,
}

impl CircuitBreaker {
    /// A call succeeded.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// A call failed or timed out.
    pub fn failed(&mut self) {
        self.failures = (self.failures + 1).min(FAILURES);
    }

    /// Whether the store is considered available.
    pub fn is_closed(&self) -> bool {
        self.failures < FAILURES
    }
}

impl ControllerState {
    /// Calls the store once, with a write as meetings need it. The breaker closes if it succeeds.
    pub async fn probe_store(&self) {
        let (Ok(key), Ok(ttl)) =
            (Key::new(format!("mc:{}:probe", self.mc_id)), Ttl::from_millis(PROBE_TTL.as_millis() as u64))
        else {
            return;
        };
        let ops = [Op::Put { key, value: Arc::from([]), ttl: Some(ttl) }];
        let clock = self.store.clock();
        // The breaker takes note of the outcome.
        let _noted = call_store(self, &clock, PROBE_TIMEOUT, self.store.commit(&ops)).await;
    }

    /// Probes the store while the breaker is open, forever. Without it the breaker would stay open when no meeting is left
    /// that could ask.
    pub(crate) async fn keep_probing(&self) {
        let clock = self.store.clock();
        loop {
            clock.sleep_until(clock.now() + PROBE_INTERVAL).await;
            let closed = self.breaker.lock().is_closed();
            if !closed {
                self.probe_store().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_consecutive_failures_open_it_and_one_success_closes_it() {
        let mut breaker = CircuitBreaker::default();
        for _ in 0..10 {
            breaker.failed();
            breaker.failed();
            assert!(breaker.is_closed());
            breaker.succeeded();
        }
        (0..5).for_each(|_| breaker.failed());
        assert!(!breaker.is_closed());
        breaker.succeeded();
        assert!(breaker.is_closed());
    }
}

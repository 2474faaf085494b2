//! Token buckets: a burst, then a steady rate.

use std::collections::HashMap;
use std::time::Duration;

use tenure_lease::Tick;

/// Buckets kept; beyond this, new names are refused.
const MAX_BUCKETS: usize = 65_536;
/// Below this number no bucket is dropped.
const MIN_SWEEP: usize = 1_024;

/// `burst` at once, `per_second` in the long run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateLimit {
    /// The burst.
    pub burst: u32,
    /// The steady rate.
    pub per_second: u32,
}

impl RateLimit {
    fn interval(self) -> Duration {
        Duration::from_secs(1) / self.per_second.max(1)
    }
}

/// What is used of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TokenBucket {
    /// When the bucket is full again.
    full_at: Tick,
}

impl TokenBucket {
    pub(crate) fn new(now: Tick) -> Self {
        Self { full_at: now }
    }

    /// Takes a token, if there is one.
    pub(crate) fn take(&mut self, rate: RateLimit, now: Tick) -> bool {
        let next = self.full_at.max(now) + rate.interval();
        let allowed = next.since(now) <= rate.interval() * rate.burst.max(1);
        if allowed {
            self.full_at = next;
        }
        allowed
    }
}

/// Buckets by name. Full buckets are dropped.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    rate: RateLimit,
    buckets: HashMap<String, TokenBucket>,
    sweep_at: usize,
}

impl RateLimiter {
    pub(crate) fn new(rate: RateLimit) -> Self {
        Self { rate, buckets: HashMap::new(), sweep_at: MIN_SWEEP }
    }

    /// Takes a token of `name`, if there is one.
    pub(crate) fn take(&mut self, name: &str, now: Tick) -> bool {
        if let Some(bucket) = self.buckets.get_mut(name) {
            return bucket.take(self.rate, now);
        }
        if self.buckets.len() >= self.sweep_at {
            self.buckets.retain(|_, bucket| bucket.full_at > now);
            self.sweep_at = (self.buckets.len() * 2).clamp(MIN_SWEEP, MAX_BUCKETS);
        }
        if self.buckets.len() >= MAX_BUCKETS {
            return false;
        }
        self.buckets.entry(name.to_owned()).or_insert(TokenBucket::new(now)).take(self.rate, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: RateLimit = RateLimit { burst: 3, per_second: 2 };

    fn at(millis: u64) -> Tick {
        Tick::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_burst_is_allowed_and_then_one_per_interval() {
        let mut rates = RateLimiter::new(RATE);
        assert!((0..3).all(|_| rates.take("ada", at(0))));
        assert!(!rates.take("ada", at(0)) && !rates.take("ada", at(499)));
        assert!(rates.take("bob", at(0)), "each name has its own bucket");
        assert!(rates.take("ada", at(500)) && !rates.take("ada", at(500)));
        assert!((0..3).all(|_| rates.take("ada", at(10_000))) && !rates.take("ada", at(10_000)));
    }

    #[test]
    fn only_full_buckets_are_dropped() {
        let mut rates = RateLimiter::new(RATE);
        (0..3).for_each(|_| assert!(rates.take("ada", at(0))));
        for name in 0..2 * MIN_SWEEP {
            assert!(rates.take(&name.to_string(), at(600)));
            assert!(rates.buckets.len() <= 2 * MIN_SWEEP + 1);
        }
        assert!(rates.take("ada", at(600)) && !rates.take("ada", at(600)));
        rates.sweep_at = 0;
        assert!(rates.take("cyd", at(60_000)));
        assert_eq!(rates.buckets.len(), 1);
    }
}

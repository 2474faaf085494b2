//! How often somebody may do something.

use std::collections::HashMap;
use std::time::Duration;

use lease::Tick;

/// Those that are remembered at once; beyond, nobody new may.
const MOST: usize = 65_536;
/// Below so many nothing is forgotten.
const FEW: usize = 1_024;

/// So often: `burst` at once, `per_second` in the long run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// At once.
    pub burst: u32,
    /// In the long run.
    pub per_second: u32,
}

impl Rate {
    fn step(self) -> Duration {
        Duration::from_secs(1) / self.per_second.max(1)
    }
}

/// What somebody has used of a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Bucket {
    /// When all of it is there again.
    whole_at: Tick,
}

impl Bucket {
    pub(crate) fn new(now: Tick) -> Self {
        Self { whole_at: now }
    }

    /// Whether it may be done now; then it counts.
    pub(crate) fn take(&mut self, rate: Rate, now: Tick) -> bool {
        let next = self.whole_at.max(now) + rate.step();
        let allowed = next.since(now) <= rate.step() * rate.burst.max(1);
        if allowed {
            self.whole_at = next;
        }
        allowed
    }
}

/// The buckets of many, of whom those are forgotten whose bucket is whole.
#[derive(Debug)]
pub(crate) struct Rates {
    rate: Rate,
    buckets: HashMap<String, Bucket>,
    sweep_at: usize,
}

impl Rates {
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, buckets: HashMap::new(), sweep_at: FEW }
    }

    /// Whether `who` may now.
    pub(crate) fn take(&mut self, who: &str, now: Tick) -> bool {
        if let Some(bucket) = self.buckets.get_mut(who) {
            return bucket.take(self.rate, now);
        }
        if self.buckets.len() >= self.sweep_at {
            self.buckets.retain(|_, bucket| bucket.whole_at > now);
            self.sweep_at = (self.buckets.len() * 2).clamp(FEW, MOST);
        }
        if self.buckets.len() >= MOST {
            return false;
        }
        self.buckets.entry(who.to_owned()).or_insert(Bucket::new(now)).take(self.rate, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { burst: 3, per_second: 2 };

    fn at(millis: u64) -> Tick {
        Tick::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_burst_is_allowed_and_then_one_per_step() {
        let mut rates = Rates::new(RATE);
        assert!((0..3).all(|_| rates.take("ada", at(0))));
        assert!(!rates.take("ada", at(0)) && !rates.take("ada", at(499)));
        assert!(rates.take("bob", at(0)), "another one has a bucket of its own");
        assert!(rates.take("ada", at(500)) && !rates.take("ada", at(500)));
        assert!((0..3).all(|_| rates.take("ada", at(10_000))) && !rates.take("ada", at(10_000)));
    }

    #[test]
    fn those_who_did_nothing_for_a_while_are_forgotten_and_the_others_are_not() {
        let mut rates = Rates::new(RATE);
        (0..3).for_each(|_| assert!(rates.take("ada", at(0))));
        for who in 0..2 * FEW {
            assert!(rates.take(&who.to_string(), at(600)));
            assert!(rates.buckets.len() <= 2 * FEW + 1);
        }
        assert!(rates.take("ada", at(600)) && !rates.take("ada", at(600)));
        rates.sweep_at = 0;
        assert!(rates.take("cyd", at(60_000)));
        assert_eq!(rates.buckets.len(), 1);
    }
}

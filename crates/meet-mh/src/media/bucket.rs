//! A token bucket: a rate with a burst.

use tenure_lease::Tick;

/// Permits `rate` units per second, and `burst` at once.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Bucket {
    rate: f64,
    burst: f64,
    left: f64,
    at: Tick,
}

impl Bucket {
    /// A full bucket.
    pub(crate) fn new(rate: u64, burst: u64, now: Tick) -> Self {
        Self { rate: rate as f64, burst: burst as f64, left: burst as f64, at: now }
    }

    /// Takes `units`, or nothing when there are not enough.
    pub(crate) fn take(&mut self, units: u64, now: Tick) -> bool {
        self.left = self.burst.min(self.left + self.rate * now.since(self.at).as_secs_f64());
        self.at = self.at.max(now);
        let enough = self.left >= units as f64;
        if enough {
            self.left -= units as f64;
        }
        enough
    }

    /// Changes the rate. What is left stays, within the new burst.
    pub(crate) fn set(&mut self, rate: u64, burst: u64) {
        self.rate = rate as f64;
        self.burst = burst as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Tick {
        Tick::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_bucket_permits_its_burst_and_then_its_rate() {
        let mut bucket = Bucket::new(10, 3, at(0));
        assert!((0..3).all(|_| bucket.take(1, at(0))));
        assert!(!bucket.take(1, at(99)));
        assert!(bucket.take(1, at(100)) && !bucket.take(1, at(100)));
        assert!(bucket.take(3, at(10_000)) && !bucket.take(1, at(10_000)), "never more than the burst");
        assert!(!bucket.take(1, at(0)), "time that runs back adds nothing");
    }
}

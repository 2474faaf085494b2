//! Token buckets, one per key, with a bounded number of keys.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// Buckets that hold `burst` and gain one every `refill`. Each is stored as the time when it will be full again, so a full
/// bucket need not be stored.
#[derive(Debug)]
pub struct Buckets<K> {
    burst: u32,
    refill: Duration,
    most: usize,
    full_at: HashMap<K, Duration>,
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    /// Buckets of this size; at most `most` keys are kept.
    pub fn new(burst: u32, refill: Duration, most: usize) -> Self {
        Self { burst, refill, most, full_at: HashMap::new() }
    }

    /// Takes one, or returns how long to wait until one is available.
    pub fn take(&mut self, key: &K, now: Duration) -> Option<Duration> {
        let wait = self.wait(key, now);
        if wait.is_none() {
            self.make_room(key, now);
            let full_at = self.full_at.get(key).copied().unwrap_or(now).max(now);
            self.full_at.insert(key.clone(), full_at + self.refill);
        }
        wait
    }

    /// How long to wait until one is available; none if one is available now.
    pub fn wait(&self, key: &K, now: Duration) -> Option<Duration> {
        let missing = self.full_at.get(key).copied().unwrap_or(now).saturating_sub(now);
        let spare = self.refill * (self.burst - 1);
        missing.checked_sub(spare).filter(|wait| !wait.is_zero())
    }

    /// Drops full buckets, or else the fullest one.
    fn make_room(&mut self, key: &K, now: Duration) {
        if self.full_at.len() < self.most || self.full_at.contains_key(key) {
            return;
        }
        self.full_at.retain(|_, full_at| *full_at > now);
        if self.full_at.len() >= self.most {
            let fullest =
                self.full_at.iter().min_by_key(|(_, full_at)| **full_at).map(|(key, _)| key.clone());
            fullest.map(|key| self.full_at.remove(&key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_burst_passes_and_then_one_per_refill() {
        let mut buckets = Buckets::new(3, SECOND, 8);
        let mut now = SECOND * 100;
        for _ in 0..3 {
            assert_eq!(buckets.take(&"a", now), None);
        }
        assert_eq!(buckets.take(&"a", now), Some(SECOND));
        assert_eq!(buckets.take(&"b", now), None, "others are not slowed");
        now += SECOND;
        assert_eq!(buckets.take(&"a", now), None);
        assert_eq!(buckets.take(&"a", now), Some(SECOND));
        now += SECOND * 60;
        for _ in 0..3 {
            assert_eq!(buckets.take(&"a", now), None);
        }
        assert!(buckets.take(&"a", now).is_some(), "a bucket holds no more than its burst");
    }

    #[test]
    fn the_number_of_buckets_is_bounded_and_the_emptiest_are_kept() {
        let mut buckets = Buckets::new(2, SECOND, 2);
        let now = SECOND * 100;
        assert_eq!(buckets.take(&0, now), None);
        assert_eq!(buckets.take(&0, now), None);
        for key in 1..100 {
            assert_eq!(buckets.take(&key, now), None);
        }
        assert!(buckets.full_at.len() <= 2);
        assert!(buckets.take(&0, now).is_some(), "an empty bucket is not forgotten before fuller ones");
    }
}

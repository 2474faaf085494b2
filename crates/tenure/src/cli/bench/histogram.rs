//! A latency histogram with a relative error of at most 1/16.

use std::time::Duration;

/// Sixteen buckets for every power of two nanoseconds.
const SHIFT: u32 = 4;
const BUCKETS: usize = 64 << SHIFT;

/// Counts of durations by bucket.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    longest: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: vec![0; BUCKETS], count: 0, longest: Duration::ZERO }
    }
}

impl Histogram {
    pub(super) fn record(&mut self, time: Duration) {
        self.buckets[index(time.as_nanos() as u64)] += 1;
        self.count += 1;
        self.longest = self.longest.max(time);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The given quantile; zero when there are no samples.
    pub(super) fn quantile(&self, part: f64) -> Duration {
        let rank = ((self.count as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank && *count > 0 {
                return Duration::from_nanos(top(bucket)).min(self.longest);
            }
        }
        self.longest
    }
}

fn index(nanos: u64) -> usize {
    if nanos < 1 << SHIFT {
        return nanos as usize;
    }
    let power = 63 - nanos.leading_zeros();
    let fine = (nanos >> (power - SHIFT)) as usize & ((1 << SHIFT) - 1);
    ((power as usize - SHIFT as usize + 1) << SHIFT) + fine
}

/// The longest duration of a bucket, in nanoseconds.
fn top(bucket: usize) -> u64 {
    if bucket < 1 << SHIFT {
        return bucket as u64;
    }
    let power = (bucket >> SHIFT) as u32 + SHIFT - 1;
    let fine = (bucket & ((1 << SHIFT) - 1)) as u64;
    let step = 1_u64 << (power - SHIFT);
    (1 << power) + (fine + 1) * step - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_a_relative_error_of_a_sixteenth() {
        for nanos in (0..10_000).chain([123_456_789, 1 << 40, (1 << 62) + 7]) {
            let top = top(index(nanos));
            assert!(top >= nanos && top - nanos <= nanos / 16, "{nanos} in a bucket up to {top}");
        }
    }

    #[test]
    fn quantiles_of_a_thousand_known_durations() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), Duration::ZERO);
        for micros in 1..=1_000 {
            histogram.record(Duration::from_micros(micros));
        }
        let near = |part: f64, micros: u64| {
            let found = histogram.quantile(part).as_micros() as u64;
            assert!((micros..=micros + micros / 10).contains(&found), "{part}: {found}");
        };
        near(0.5, 500);
        near(0.99, 990);
        assert_eq!(histogram.quantile(1.0), Duration::from_millis(1));
    }
}

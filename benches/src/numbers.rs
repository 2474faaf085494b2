//! Medians, percentiles and number formats.

use std::fmt;
use std::time::Duration;

/// The median of several rounds with minimum and maximum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    pub(crate) fn of(values: &[f64]) -> Self {
        let min = values.iter().copied().fold(f64::INFINITY, f64::min);
        let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { median: median(values.iter().copied()), min, max }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}–{}]", plain(self.median), plain(self.min), plain(self.max))
    }
}

/// The median; NaN without values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

/// Sorted durations, for percentiles.
pub(crate) struct Lags(Vec<Duration>);

impl Lags {
    pub(crate) fn new(mut lags: Vec<Duration>) -> Self {
        lags.sort();
        Self(lags)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The percentile.
    pub(crate) fn at(&self, percent: f64) -> Duration {
        let last = self.0.len().saturating_sub(1);
        let place = (self.0.len() as f64 * percent / 100.0).ceil() as usize;
        self.0.get(place.saturating_sub(1).min(last)).copied().unwrap_or_default()
    }
}

/// A number with about three digits.
pub(crate) fn plain(number: f64) -> String {
    match number.abs() {
        n if n >= 10_000_000.0 => format!("{:.1} M", number / 1e6),
        n if n >= 1_000_000.0 => format!("{:.2} M", number / 1e6),
        n if n >= 10_000.0 => format!("{:.0} k", number / 1e3),
        n if n >= 1_000.0 => format!("{:.1} k", number / 1e3),
        n if n >= 100.0 => format!("{number:.0}"),
        n if n >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// A duration with about three digits.
pub(crate) fn short(time: Duration) -> String {
    match time.as_nanos() {
        n if n < 1_000 => format!("{n} ns"),
        n if n < 1_000_000 => format!("{:.0} µs", n as f64 / 1e3),
        n if n < 1_000_000_000 => format!("{:.1} ms", n as f64 / 1e6),
        n => format!("{:.2} s", n as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median([]).is_nan());
    }

    #[test]
    fn percentiles_are_durations_that_occurred() {
        let lags = Lags::new((1..=100).map(Duration::from_millis).collect());
        assert_eq!(lags.at(50.0), Duration::from_millis(50));
        assert_eq!(lags.at(99.0), Duration::from_millis(99));
        assert_eq!(lags.at(100.0), Duration::from_millis(100));
        assert_eq!(Lags::new(Vec::new()).at(50.0), Duration::ZERO);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(plain(12_345_678.0), "12.3 M");
        assert_eq!(plain(2_345_678.0), "2.35 M");
        assert_eq!(plain(98_765.0), "99 k");
        assert_eq!(plain(4_321.0), "4.3 k");
        assert_eq!(plain(0.987), "0.99");
        assert_eq!(short(Duration::from_micros(1_234)), "1.2 ms");
    }
}

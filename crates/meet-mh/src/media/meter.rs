//! The measured rate and lag of one rendition.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tenure_lease::Tick;

use super::layers::TEMPORAL;

/// The minimum of the lag is that of at least this time, and at most twice of it.
const LAG_WINDOW: Duration = Duration::from_secs(15);

/// Counts the bytes of a rendition.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    bytes: [AtomicU64; TEMPORAL],
    lag: Mutex<Lag>,
    timestamp_us: AtomicU64,
    measured: Mutex<Measured>,
}

#[derive(Debug, Default)]
struct Measured {
    at: Option<(Tick, [u64; TEMPORAL])>,
    rates: [u64; TEMPORAL],
}

/// How much later frames arrive than the fastest one.
#[derive(Clone, Copy, Default, Debug)]
struct Lag {
    window: Option<Tick>,
    least: Option<i64>,
    least_before: Option<i64>,
    last: i64,
}

impl Lag {
    /// `late` is arrival minus timestamp. The clocks differ, so only changes of it mean something.
    fn frame(&mut self, late: i64, now: Tick) {
        if self.window.is_none_or(|began| now.since(began) >= LAG_WINDOW) {
            self.window = Some(now);
            self.least_before = self.least.take();
        }
        self.least = Some(self.least.map_or(late, |least| least.min(late)));
        let least = self.least.into_iter().chain(self.least_before).min().unwrap_or(late);
        self.last = late - least;
    }
}

impl Meter {
    /// A part of a frame arrived.
    pub(crate) fn received(&self, temporal: u8, bytes: usize) {
        if let Some(count) = self.bytes.get(usize::from(temporal)) {
            count.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// A frame began to arrive.
    pub(crate) fn frame(&self, timestamp_us: u64, now: Tick) {
        let late = (now.as_nanos() / 1_000) as i64 - timestamp_us as i64;
        self.lag.lock().frame(late, now);
        self.timestamp_us.store(timestamp_us, Ordering::Relaxed);
    }

    /// The timestamp of the last frame.
    pub(crate) fn timestamp_us(&self) -> u64 {
        self.timestamp_us.load(Ordering::Relaxed)
    }

    /// The lag of the last frame.
    pub(crate) fn lag(&self) -> Duration {
        Duration::from_micros(u64::try_from(self.lag.lock().last).unwrap_or_default())
    }

    /// Measures the rates since the last call.
    pub(crate) fn measure(&self, now: Tick) {
        let totals: [u64; TEMPORAL] =
            std::array::from_fn(|at| self.bytes.get(at).map_or(0, |count| count.load(Ordering::Relaxed)));
        let mut measured = self.measured.lock();
        if let Some((before, earlier)) = measured.at {
            let seconds = now.since(before).as_secs_f64().max(0.001);
            let mut sum = 0;
            for (at, rate) in measured.rates.iter_mut().enumerate() {
                let bytes = totals.get(at).unwrap_or(&0).saturating_sub(*earlier.get(at).unwrap_or(&0));
                sum += bytes;
                *rate = (*rate + (sum as f64 * 8.0 / seconds) as u64) / 2;
            }
        }
        measured.at = Some((now, totals));
    }

    /// Bits per second up to each temporal layer.
    pub(crate) fn rates(&self) -> [u64; TEMPORAL] {
        self.measured.lock().rates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Tick {
        Tick::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn rates_of_a_layer_include_the_layers_below() {
        let meter = Meter::default();
        meter.measure(at(0));
        for second in 1..20 {
            meter.received(0, 1_000);
            meter.received(1, 500);
            meter.measure(at(second * 1_000));
        }
        let rates = meter.rates();
        assert!(rates[0].abs_diff(8_000) < 50 && rates[1].abs_diff(12_000) < 50, "{rates:?}");
        assert_eq!(rates[1], rates[3]);
    }

    #[test]
    fn the_lag_is_measured_from_the_fastest_frame() {
        let meter = Meter::default();
        meter.frame(5_000_000, at(1_000));
        assert_eq!(meter.lag(), Duration::ZERO, "clocks of sender and handler differ");
        meter.frame(5_100_000, at(1_350));
        assert_eq!(meter.lag(), Duration::from_millis(250));
        meter.frame(5_200_000, at(1_190));
        assert_eq!(meter.lag(), Duration::ZERO);
        // The fastest frame is forgotten after 15 to 30 seconds.
        for seconds in [20, 40, 60] {
            meter.frame(5_000_000 + seconds * 1_000_000, at(1_100 + seconds * 1_000));
        }
        assert_eq!(meter.lag(), Duration::ZERO);
    }
}

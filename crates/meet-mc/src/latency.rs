//! How many messages were slow in the last minute.

use std::time::Duration;

use parking_lot::Mutex;
use tenure_lease::Tick;

/// The length of the window, in seconds.
const SECONDS: u64 = 60;
/// A message that takes longer is slow.
const SLOW: Duration = Duration::from_millis(100);
/// With fewer messages there is no verdict.
const MIN_MESSAGES: u64 = 20;

#[derive(Clone, Copy, Default, Debug)]
struct Second {
    number: u64,
    all: u64,
    slow: u64,
}

/// Counts slow messages per second.
#[derive(Debug)]
pub struct LatencyWindow(Mutex<[Second; SECONDS as usize]>);

impl Default for LatencyWindow {
    fn default() -> Self {
        Self(Mutex::new([Second::default(); SECONDS as usize]))
    }
}

fn number(now: Tick) -> u64 {
    // Starts at one: zero marks an unused slot.
    now.as_nanos() / 1_000_000_000 + 1
}

impl LatencyWindow {
    /// Records a message that was processed at `now`.
    pub(crate) fn record(&self, now: Tick, took: Duration) {
        let number = number(now);
        let second = &mut self.0.lock()[(number % SECONDS) as usize];
        if second.number != number {
            *second = Second { number, ..Second::default() };
        }
        second.all += 1;
        second.slow += u64::from(took > SLOW);
    }

    /// Whether more than 1 % of the messages were slow: the 99th percentile exceeds 100 ms.
    pub fn is_slow(&self, now: Tick) -> bool {
        let now = number(now);
        let recent = |second: &&Second| second.number > 0 && second.number + SECONDS > now;
        let seconds = self.0.lock();
        let (all, slow) = seconds
            .iter()
            .filter(recent)
            .fold((0, 0), |(all, slow), second| (all + second.all, slow + second.slow));
        all >= MIN_MESSAGES && slow * 100 > all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn more_than_one_percent_of_slow_messages_within_a_minute_is_slow() {
        let latency = LatencyWindow::default();
        (0..99).for_each(|_| latency.record(at(5), Duration::from_millis(1)));
        latency.record(at(6), Duration::from_millis(101));
        assert!(!latency.is_slow(at(6)));
        latency.record(at(7), Duration::from_millis(101));
        assert!(latency.is_slow(at(7)) && latency.is_slow(at(64)));
        assert!(!latency.is_slow(at(67)), "the slow messages left the window");
    }

    #[test]
    fn few_messages_give_no_verdict() {
        let latency = LatencyWindow::default();
        (0..19).for_each(|_| latency.record(at(1), Duration::from_secs(1)));
        assert!(!latency.is_slow(at(1)));
        latency.record(at(1), Duration::from_secs(1));
        assert!(latency.is_slow(at(1)));
    }
}

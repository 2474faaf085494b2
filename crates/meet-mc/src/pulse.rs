//! How long meetings take for what they do, over the last minute.

use std::time::Duration;

use lease::Tick;
use parking_lot::Mutex;

/// Seconds that are looked at.
const SECONDS: u64 = 60;
/// What takes longer is slow.
const SLOW: Duration = Duration::from_millis(100);
/// So few say nothing.
const FEW: u64 = 20;

#[derive(Clone, Copy, Default, Debug)]
struct Second {
    number: u64,
    all: u64,
    slow: u64,
}

/// Counts what was slow, second by second.
#[derive(Debug)]
pub struct Pulse(Mutex<[Second; SECONDS as usize]>);

impl Default for Pulse {
    fn default() -> Self {
        Self(Mutex::new([Second::default(); SECONDS as usize]))
    }
}

fn number(now: Tick) -> u64 {
    // From one, so that a second that never was is none of the last minute.
    now.as_nanos() / 1_000_000_000 + 1
}

impl Pulse {
    /// Something was done at `now` and took so long.
    pub(crate) fn note(&self, now: Tick, took: Duration) {
        let number = number(now);
        let second = &mut self.0.lock()[(number % SECONDS) as usize];
        if second.number != number {
            *second = Second { number, ..Second::default() };
        }
        second.all += 1;
        second.slow += u64::from(took > SLOW);
    }

    /// Whether more than one in a hundred was slow in the last minute: its 99th percentile is over 100 ms.
    pub fn is_slow(&self, now: Tick) -> bool {
        let now = number(now);
        let recent = |second: &&Second| second.number > 0 && second.number + SECONDS > now;
        let seconds = self.0.lock();
        let (all, slow) = seconds
            .iter()
            .filter(recent)
            .fold((0, 0), |(all, slow), second| (all + second.all, slow + second.slow));
        all >= FEW && slow * 100 > all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn one_in_a_hundred_is_not_slow_and_two_are_until_a_minute_has_passed() {
        let pulse = Pulse::default();
        (0..99).for_each(|_| pulse.note(at(5), Duration::from_millis(1)));
        pulse.note(at(6), Duration::from_millis(101));
        assert!(!pulse.is_slow(at(6)));
        pulse.note(at(7), Duration::from_millis(101));
        assert!(pulse.is_slow(at(7)) && pulse.is_slow(at(64)));
        assert!(!pulse.is_slow(at(67)), "the slow ones are too long ago");
    }

    #[test]
    fn a_few_slow_ones_say_nothing() {
        let pulse = Pulse::default();
        (0..19).for_each(|_| pulse.note(at(1), Duration::from_secs(1)));
        assert!(!pulse.is_slow(at(1)));
        pulse.note(at(1), Duration::from_secs(1));
        assert!(pulse.is_slow(at(1)));
    }
}

//! Fencing numbers that never go back.

use std::fmt;
use std::num::NonZeroU64;

use crate::breaks::{Break, broken};
use crate::{Error, Wall};

/// The fencing number of one reign: 1 ≤ g < 2^53, strictly rising per key for ever.
///
/// The bound keeps it exact in Lua and JavaScript. There is no arithmetic on it and its first value and its
/// step are not promised; only the order is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(NonZeroU64);

/// The number below which no generation is minted; raised once per server incarnation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Floor(u64);

const END: u64 = 1 << 53;
const STRIDE: u64 = 1 << 20;

impl Generation {
    /// Validates a number.
    pub fn new(number: u64) -> Result<Self, Error> {
        NonZeroU64::new(number)
            .filter(|n| n.get() < END)
            .map(Self)
            .ok_or_else(|| Error::invalid("generation", format!("{number} is not between 1 and 2^53 - 1")))
    }

    /// Parses a decimal number, as in JSON.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
        match text.parse() {
            Ok(number) if plain => Self::new(number),
            _ => Err(Error::invalid("generation", "must be a positive decimal number")),
        }
    }

    /// The generation after `last`, above `floor`: max(last, floor) + 1.
    pub fn next(last: Option<Self>, floor: Floor) -> Result<Self, Error> {
        let last = last.map_or(0, Self::get);
        Self::new(last.max(floor.0) + 1)
            .map_err(|_| Error::invalid("generation", "all 2^53 numbers are used"))
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl Floor {
    /// The floor of a new incarnation: max(floor + 2^20, seconds · 2^20 + microseconds).
    ///
    /// The jump of a million exceeds what the previous incarnation may have granted and lost; the time term still rises
    /// when the stored floor itself was lost.
    pub fn raise(self, wall: Wall) -> Self {
        if broken(Break::PlainCounter) {
            return self;
        }
        let micros = wall.as_micros();
        let stamp = (micros / 1_000_000).saturating_mul(STRIDE).saturating_add(micros % 1_000_000);
        Self(self.0.saturating_add(STRIDE).max(stamp).min(END - 2))
    }

    /// A floor from storage.
    pub const fn from_raw(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The higher of this floor and a generation that is about to be forgotten.
    pub fn covering(self, generation: Generation) -> Self {
        Self(self.0.max(generation.get()))
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "g{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_stays_exact_in_a_double() {
        assert!(Generation::new(0).is_err());
        assert!(Generation::new(1 << 53).is_err());
        let top = Generation::new((1 << 53) - 1).unwrap();
        assert_eq!((top.get() as f64) as u64, top.get());
        assert!(Generation::next(Some(top), Floor::default()).is_err());
    }

    #[test]
    fn only_plain_decimals_parse() {
        assert_eq!(Generation::parse("42").unwrap().get(), 42);
        for bad in
            ["", "0", "-1", "+1", "042", "1.0", "1e3", " 1", "9007199254740992", "99999999999999999999"]
        {
            assert!(Generation::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_new_incarnation_starts_above_everything_the_old_one_minted() {
        let wall = Wall::from_micros(1_700_000_000_000_123);
        let floor = Floor::default().raise(wall);
        let mut last = None;
        for _ in 0..1_000 {
            last = Some(Generation::next(last, floor).unwrap());
        }
        let again = floor.raise(wall);
        assert!(Generation::next(None, again).unwrap() > last.unwrap());
    }

    #[test]
    fn a_lost_floor_is_replaced_by_the_time() {
        let before = Floor::default().raise(Wall::from_micros(1_700_000_000_000_000));
        let after = Floor::default().raise(Wall::from_micros(1_700_000_003_000_000));
        assert!(after > before);
    }

    #[test]
    fn a_floor_or_clock_out_of_range_saturates() {
        for (floor, wall) in [(u64::MAX, 0), (0, u64::MAX), (u64::MAX - 1, 1)] {
            let raised = Floor::from_raw(floor).raise(Wall::from_micros(wall));
            assert_eq!(raised.get(), END - 2);
        }
    }

    #[test]
    fn a_clock_that_went_back_still_raises_the_floor() {
        let before = Floor::default().raise(Wall::from_micros(1_700_000_000_000_000));
        assert!(before.raise(Wall::from_micros(1_600_000_000_000_000)) > before);
    }
}

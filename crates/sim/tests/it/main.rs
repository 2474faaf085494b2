//! The simulator as a whole: that it repeats, that it passes, and that it can fail; and real processes before the
//! same judge.

mod breaks;
mod chaos;
mod repeat;
mod seeds;

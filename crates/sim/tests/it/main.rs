//! The simulator as a whole: that it repeats, that it passes, and that it can fail.

mod breaks;
mod repeat;
mod seeds;

//! Every order of the local engines' threads and tasks that a test's budget of schedules reaches.
//!
//! A failure prints its schedule; `shuttle::replay` runs that one again.

mod breaks;
mod waiters;
mod world;
mod writer;

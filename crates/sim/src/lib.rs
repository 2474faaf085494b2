//! Proof of the kernel.
//!
//! A [`history`] is what happened, in true time. Whoever records one, a simulated world or real processes,
//! gives it to the same judge.

pub mod history;

pub mod disk;
pub mod linear;
pub mod redis;

//! Proof of the kernel.
//!
//! A [`history`] is what happened, in true time. Whoever records one, a simulated world or real processes,
//! gives it to the same [`judge`].

pub mod chaos;
pub mod history;
pub mod judge;

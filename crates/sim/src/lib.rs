//! Proof of the kernel.
//!
//! A [`history`] is what happened, in true time. Whoever records one, a simulated world or real processes,
//! gives it to the same [`judge`]. A [`plan`] is what a seed decides; [`run`] lets it happen, with the real
//! keeper, guards and memory engine, in one thread under virtual time. [`mutants`] are known breaks of the
//! kernel that the judge must find.

pub mod chaos;
pub mod clock;
pub mod history;

pub mod disk;
pub mod judge;
pub mod linear;
pub mod log;
pub mod many;
pub mod mutants;
pub mod plan;
pub mod redis;
pub mod rng;
pub mod run;
pub mod shrink;
pub mod timeline;
mod work;
mod world;

pub use world::net::Weather;

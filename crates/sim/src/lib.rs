//! Tests of the kernel by simulation.
//!
//! A [`history`] is what happened, in true time. Simulations and real processes record one, and the same [`judge`]
//! checks it. A [`plan`] is what a seed decides; [`run`] carries it out with the real keeper, guards and memory engine,
//! in one thread under virtual time. [`disk`] and [`redis`] simulate the embedded and the Redis engine. [`mutants`] are
//! known breaks of the kernel that the judge must find.

pub mod chaos;
pub mod clock;
pub mod disk;
pub mod history;
pub mod judge;
pub mod linear;
pub mod log;
pub mod meet;
pub mod mutants;
pub mod plan;
pub mod redis;
pub mod rng;
pub mod run;
pub mod seed_range;
pub mod shrink;
mod simulation;
pub mod timeline;
mod work;

pub use simulation::net::Weather;

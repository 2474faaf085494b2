//! The clock and the randomness of the host, behind the traits of [`tenure_lease`].
//!
//! Engines, keeper and network client share this crate, so that none of them pulls in another for it.

mod clock;
mod entropy;

pub use clock::{BootClock, TokioClock};
pub use entropy::OsEntropy;

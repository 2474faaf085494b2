//! Where leases live: memory, embedded, Redis.
//!
//! ```
//! # async fn f() -> lease::Result<()> {
//! let store = lease_store::Store::open("memory:").await?;
//! let free = store.inspect(&lease::Key::new("tuner/0")?).await?;
//! assert_eq!(free.phase, lease::Phase::Free);
//! # Ok(()) }
//! ```

mod clock;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    //! What the fuzz targets need to see.

    pub use crate::redis::fuzzing::{redis, redis_address, redis_seeds};
}
mod handle;
mod local;
mod metered;
mod redis;
mod sync;

pub use clock::{BootClock, OsEntropy, TokioClock};
pub use handle::Store;
#[cfg(any(test, feature = "lockstep"))]
pub use local::Lockstep;
pub use local::{Disk, Folder, Local, Medium, Options};
pub use metered::Metered;
pub use redis::Redis;

/// Data that is there and cannot be read.
pub(crate) fn corrupt(why: impl Into<String>) -> lease::Error {
    lease::Error::unavailable("embedded", why)
}

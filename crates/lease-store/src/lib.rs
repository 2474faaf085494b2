//! Storage engines for leases: memory, embedded, Redis.
//!
//! ```
//! # async fn f() -> tenure_lease::Result<()> {
//! let store = tenure_store::Store::open("memory:").await?;
//! let free = store.inspect(&tenure_lease::Key::new("tuner/0")?).await?;
//! assert_eq!(free.phase, tenure_lease::Phase::Free);
//! # Ok(()) }
//! ```

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    //! What the fuzz targets call.

    pub use crate::redis::fuzzing::{redis, redis_address, redis_seeds};
}
mod handle;
#[cfg_attr(
    not(feature = "embedded"),
    allow(dead_code, reason = "the memory engine uses less of the table than the embedded engine")
)]
mod local;
mod metered;
#[cfg(feature = "redis")]
mod redis;
mod sync;

pub use handle::{OpenOptions, Store};
pub use local::Local;
#[cfg(any(test, feature = "lockstep"))]
pub use local::Lockstep;
#[cfg(feature = "embedded")]
pub use local::{BlockFile, DirectFile, Directory, Options, Salvaged, Storage, StorageFile};
pub use metered::Metered;
#[cfg(feature = "redis")]
pub use redis::Redis;
#[cfg(feature = "lockstep")]
pub use redis::protocol as redis_protocol;
pub use tenure_host::{BootClock, OsEntropy, TokioClock};

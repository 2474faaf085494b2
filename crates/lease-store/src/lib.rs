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
mod handle;
mod redis;

pub use clock::{BootClock, OsEntropy, TokioClock};
pub use handle::Store;
pub use redis::Redis;

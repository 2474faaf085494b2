//! Holding leases in a process.
//!
//! A [`Keeper`] renews leases, a [`Guard`] holds one, a [`Permit`] allows one act. A [`Gate`] is the lease of a whole
//! process, a [`Bundle`] holds several keys or none, [`Slots`] are interchangeable keys, a [`Roster`] lists live
//! members, and a [`Handoff`] moves ownership to a named successor.
//!
//! Ownership depends on time and generation together, never on a name or on a flag that a timer sets: every check reads
//! the clock. A deadline counts from before the request was sent, so a slow response only shortens what the holder may
//! do, and an unknown outcome extends nothing.
//!
//! ```no_run
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use tenure_lease::{Holder, Key, Ttl};
//! use tenure_keeper::{Keeper, RunOutcome, Terms};
//!
//! let store = tenure_store::Store::open("memory:").await?;
//! let keeper = Keeper::new(store, Holder::new("host-1")?);
//! let terms = Terms::new(Ttl::from_secs(15)?);
//! let guard = keeper.acquire(Key::new("tuner/0")?, terms, Duration::from_secs(60)).await?;
//! let outcome = guard
//!     .run(|lease| async move {
//!         // One exclusive act that takes up to two seconds.
//!         let permit = lease.permit(Duration::from_secs(2))?;
//!         println!("acting under generation {}", permit.generation());
//!         Ok::<_, tenure_keeper::PermitError>(())
//!     })
//!     .await;
//! assert!(matches!(outcome, RunOutcome::Returned(_)));
//! # Ok(()) }
//! ```
//!
//! This crate reads only the store's [`tenure_lease::Clock`], depends on no engine, and spawns only tasks that the
//! [`Keeper`] owns.

mod acquire;
mod bundle;
mod entropy;
mod error;
mod gate;
mod guard;
mod handle;
mod handoff;
mod held_lease;
mod keeper;
mod observer;
mod permit;
mod reaper;
mod reign;
mod renewer;
mod roster;
mod run;
mod schedule;
mod slots;
mod state;
mod telemetry;
mod terms;
mod watchdog;

pub use bundle::Bundle;
pub use error::{Error, Result};
pub use gate::Gate;
pub use guard::{Guard, TransferOutcome};
pub use handle::LeaseHandle;
pub use handoff::{Handoff, HandoffOutcome};
pub use keeper::{Builder, Keeper};
pub use observer::Observer;
pub use permit::{Permit, PermitError};
pub use roster::{Member, Roster};
pub use run::{Interruption, RunOutcome};
pub use slots::{Slot, Slots};
pub use state::{GuardState, Lost};
pub use tenure_host::OsEntropy;
pub use terms::{Liveness, Policy, Terms};

/// Limits and defaults of this crate.
pub mod limits {
    use std::time::Duration;

    /// By default, renewals due within this time of each other share a call.
    pub const RENEWAL_WINDOW: Duration = Duration::from_millis(100);
    /// Most pending releases of dropped guards; further ones expire by their TTL.
    pub const PENDING_RELEASES: usize = 16_384;
    /// Most concurrent releases of dropped guards.
    pub const CONCURRENT_RELEASES: usize = 64;
    /// Most keys in one bundle.
    pub const BUNDLE: usize = 64;
    /// Most slots of one name.
    pub const SLOTS: u32 = 4_096;
    /// How long a transfer is retried, at most a third of the TTL.
    pub const TRANSFER: Duration = Duration::from_secs(1);
    /// How long a read of the store (a list, the opening of a watch) may take.
    pub const READ_TIMEOUT: Duration = Duration::from_secs(5);
    /// How long a wipe may take.
    pub const WIPE_TIMEOUT: Duration = Duration::from_secs(30);
    /// How often a waiting gate retries.
    pub const GATE_POLL: Duration = Duration::from_millis(250);
    /// How often the watchdog of a gate reads the clock.
    pub const WATCHDOG_POLL: Duration = Duration::from_millis(200);
    /// How long a process that lost its gate may spend on logging it.
    pub const EXIT_LOG_TIMEOUT: Duration = Duration::from_millis(200);
    /// The exit code of a process that lost its gate.
    pub const EXIT_CODE: i32 = 70;
}

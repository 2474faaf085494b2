//! Holding leases in a process.
//!
//! A [`Keeper`] renews, a [`Guard`] holds, a [`Permit`] allows one act, a [`Gate`] opens the process, a
//! [`Bundle`] takes several or none, [`Slots`] share, a [`Roster`] knows who lives, a [`Handoff`] moves
//! ownership on purpose.
//!
//! Ownership here is a matter of time and generation together, never of a name or of a flag that a timer
//! sets: every answer reads the clock at the moment of the question. A deadline counts from before the
//! request left, so a slow reply only shortens what the holder may do; an unknown outcome extends nothing.
//!
//! ```no_run
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use lease::{Holder, Key, Ttl};
//! use lease_keeper::{Ended, Keeper, Terms};
//!
//! let store = lease_store::Store::open("memory:").await?;
//! let keeper = Keeper::new(store, Holder::new("host-1")?);
//! let terms = Terms::new(Ttl::from_secs(15)?);
//! let guard = keeper.acquire(Key::new("tuner/0")?, terms, Duration::from_secs(60)).await?;
//! let ended = guard
//!     .run(|held| async move {
//!         // One exclusive act that takes up to two seconds.
//!         let permit = held.permit(Duration::from_secs(2))?;
//!         println!("acting under generation {}", permit.generation());
//!         Ok::<_, lease_keeper::NotSafe>(())
//!     })
//!     .await;
//! assert!(matches!(ended, Ended::Returned(_)));
//! # Ok(()) }
//! ```
//!
//! This crate reads no clock of its own (time is the store's [`lease::Clock`]), knows no engine, and spawns
//! nothing that the [`Keeper`] does not own.

mod acquire;
mod bundle;
mod core;
mod entropy;
mod error;
mod gate;
mod guard;
mod handoff;
mod held;
mod keeper;
mod observer;
mod permit;
mod reaper;
mod reign;
mod renewer;
mod roll;
mod roster;
mod run;
mod slots;
mod state;
mod telemetry;
mod terms;
mod watchdog;

pub use bundle::Bundle;
pub use entropy::OsEntropy;
pub use error::{Error, Result};
pub use gate::Gate;
pub use guard::{Guard, Moved};
pub use handoff::{Handed, Handoff};
pub use held::Held;
pub use keeper::{Builder, Keeper};
pub use observer::Observer;
pub use permit::{NotSafe, Permit};
pub use roster::{Member, Roster};
pub use run::{Cut, Ended};
pub use slots::{Slot, Slots};
pub use state::{Lost, State};
pub use terms::{Liveness, Policy, Terms};

/// Bounds and defaults of this crate, by name.
pub mod limits {
    use std::time::Duration;

    /// Renewals due within this time of each other go out together, unless the builder says otherwise.
    pub const WINDOW: Duration = Duration::from_millis(100);
    /// Most releases owed at once; beyond, a dropped guard is left to its TTL.
    pub const OWED: usize = 16_384;
    /// Most releases of the reaper in flight.
    pub const REAPING: usize = 64;
    /// Most keys in one bundle.
    pub const BUNDLE: usize = 64;
    /// Most slots of one name.
    pub const SLOTS: u32 = 4_096;
    /// How long a look at the store (a list, the opening of a watch) may take.
    pub const LOOK: Duration = Duration::from_secs(5);
    /// How long a wipe may take.
    pub const WIPE: Duration = Duration::from_secs(30);
    /// How long a gate that waits goes without asking again.
    pub const GATE_LOOK: Duration = Duration::from_millis(250);
    /// How long the watchdog of a gate goes without looking at the clock.
    pub const WATCHDOG_LOOK: Duration = Duration::from_millis(200);
    /// How long a dying process may spend on its last words.
    pub const LAST_WORDS: Duration = Duration::from_millis(200);
    /// The exit code of a process that lost its gate.
    pub const EXIT: i32 = 70;
}

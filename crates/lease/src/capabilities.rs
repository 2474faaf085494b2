//! What an engine promises.

use std::time::Duration;

use crate::{Refusal, Result, Ttl, limits};

/// What an engine promises, so that callers never ask for its name. The conformance suite checks each promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// The engine's name, for messages only.
    pub engine: &'static str,
    /// Whether the store lives in the process that opened it: leases taken in that process end with it, and no other
    /// process can open the store at the same time.
    pub dies_with_process: bool,
    /// The shortest TTL it grants.
    pub min_ttl: Ttl,
    /// The longest TTL it grants.
    pub max_ttl: Ttl,
    /// The resolution of a TTL: the engine rounds up to a multiple of it.
    pub ttl_step: Duration,
    /// The longest delay until watch and history show an expiry.
    pub expiry_lag: Duration,
    /// The longest unavailability while its servers fail over; zero when there is no failover.
    pub failover: Duration,
    /// Which acknowledged writes survive.
    pub durability: Durability,
    /// The largest steps it takes.
    pub limits: Limits,
    /// How a queued claim is notified of its grant.
    pub wakes_waiters: Wakeup,
    /// Whether other programs may have keys in the same store.
    pub shared_keys: bool,
    /// Whether a lease outlives its holder's process, so that a caller that has proven the holder dead should replace
    /// it ([`Claim::instead_of`](crate::Claim::instead_of)) instead of waiting for the expiry.
    pub proof_of_death: bool,
}

/// Which acknowledged writes survive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// None: everything is lost with the process.
    Volatile,
    /// All: a write is on disk before it is acknowledged.
    Synced,
    /// All that the server's own persistence keeps.
    ServerPersistence,
    /// All while a majority of the servers lives.
    Majority,
}

/// The largest steps that an engine takes at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Operations per commit.
    pub commit_operations: usize,
    /// Bytes of values per commit.
    pub commit_bytes: usize,
    /// Leases ended by one wipe.
    pub wiped_leases: usize,
}

/// How a queued claim is notified of its grant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wakeup {
    /// The store notifies it.
    Push,
    /// It asks the store at intervals.
    Poll,
}

impl Default for Limits {
    /// The bounds of [`limits`](crate::limits).
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl Limits {
    const DEFAULT: Self =
        Self { commit_operations: limits::OPS, commit_bytes: limits::COMMIT, wiped_leases: limits::WIPE };
}

impl Capabilities {
    /// The promises of a volatile store inside the caller's process.
    pub const fn in_process(engine: &'static str) -> Self {
        Self {
            engine,
            dies_with_process: true,
            min_ttl: Ttl::MIN_IN_PROCESS,
            max_ttl: Ttl::MAX,
            ttl_step: Duration::from_millis(1),
            expiry_lag: Duration::from_millis(50),
            failover: Duration::ZERO,
            durability: Durability::Volatile,
            limits: Limits::DEFAULT,
            wakes_waiters: Wakeup::Push,
            shared_keys: false,
            proof_of_death: false,
        }
    }

    /// Refuses a TTL outside the range that the engine grants.
    pub fn check(&self, ttl: Ttl) -> Result<()> {
        if (self.min_ttl..=self.max_ttl).contains(&ttl) {
            return Ok(());
        }
        Err(Refusal::TtlOutOfRange {
            asked_ms: ttl.as_millis(),
            engine: self.engine,
            min_ms: self.min_ttl.as_millis(),
            max_ms: self.max_ttl.as_millis(),
        }
        .into())
    }
}

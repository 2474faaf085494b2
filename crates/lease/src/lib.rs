//! The types and the rules of exclusive ownership.
//!
//! A [`Claim`] asks for a key, a [`Lease`] is its grant, a [`Fence`] is checked where a write lands, a [`Placement`]
//! computes preferred owners. Every engine implements [`Store`]; [`rules`] decides, as pure functions, what each verb
//! does to a key.
//!
//! This crate does no I/O, reads no clock, spawns no task and serializes nothing: time comes in through [`Clock`],
//! randomness through [`Entropy`], and encodings belong to other crates.

mod announce;
mod capabilities;
mod claim;
mod clock;
mod error;
mod event;
mod fence;
mod generation;
mod holder;
mod key;
mod layer;
mod lease;
mod meta;
mod outcome;
mod placement;
mod record;
pub mod rules;
mod store;
mod token;
mod ttl;

pub use announce::Announcement;
pub use capabilities::{Capabilities, Durability, Limits, Wakeup};
pub use claim::{Claim, Origin, Proof, Release, Renewal, Revoke, RevokeReason, Transfer, Wipe};
pub use clock::{Clock, Deadline, Entropy, Margins, Sleep, Tick, Wall};
pub use error::{Error, Outcome, Refusal, Result};
pub use event::{Event, Revision, Verb, Watch, Watched};
pub use fence::{Fence, HighWaterMark, Mode};
pub use generation::{Floor, Generation};
pub use holder::Holder;
pub use key::{Key, Prefix};
pub use layer::StoreLayer;
pub use lease::{End, Lease, LeaseId, Phase, Reign, Status};
pub use meta::Meta;
pub use outcome::{
    Acquired, Busy, BusyReason, Committed, Grant, Released, Renewed, Revoked, Transferred, Verified, Wiped,
};
pub use placement::{Placement, seed_weight};
pub use record::{LogEntry, Op, Page, Query, Record};
pub use store::{Leases, Records, Store, fallback};
#[doc(hidden)]
pub use tenure_breaks as breaks;
pub use token::{Digest, Token};
pub use ttl::Ttl;

/// Bounds that hold on every engine.
pub mod limits {
    /// Most leases in one renew, and most items in one page.
    pub const BATCH: usize = 1_000;
    /// Most operations in one commit.
    pub const OPS: usize = 64;
    /// Longest key or prefix, in bytes.
    pub const KEY: usize = 256;
    /// Longest holder name, in bytes.
    pub const HOLDER: usize = 128;
    /// Longest meta, in bytes.
    pub const META: usize = 1_024;
    /// Most records in one discovery.
    pub const DISCOVERY: usize = 100_000;
    /// Largest record value or log entry, in bytes.
    pub const VALUE: usize = 256 * 1024;
    /// Largest commit, all values together, in bytes.
    pub const COMMIT: usize = 4 << 20;
    /// Longest log, in entries.
    pub const LOG: usize = 100_000;
    /// Reigns remembered per key.
    pub const REIGNS: usize = 32;
    /// Most waiters parked on one key.
    pub const WAITERS: usize = 1_024;
    /// Most watchers on one store handle.
    pub const WATCHERS: usize = 1_024;
    /// Events kept for watchers that resume.
    pub const EVENTS: usize = 65_536;
    /// Longest wait of a parked acquire, in milliseconds.
    pub const WAIT_MS: u64 = 3_600_000;
    /// How long a token that was released without holding anything is refused, in milliseconds.
    pub const TOMBSTONE_MS: u64 = 60_000;
    /// How long a release reserves the key for a named successor that is not parked, in milliseconds.
    pub const RESERVATION_MS: u64 = 2_000;
    /// Longest lock-delay, in milliseconds.
    pub const DELAY_MS: u64 = 86_400_000;
    /// Most leases one wipe may end.
    pub const WIPE: usize = 10_000;
}

//! What somebody wants to watch.
//!
//! An [`Intent`] says it, a [`Session`] is what becomes of it, [`State::step`] decides what may follow what, an
//! [`IdempotencyKey`] makes the same wish the same session. The ports ([`SessionLog`], [`Bus`], [`Admission`]) are
//! what the door and the orchestrator need of the world.
//!
//! This crate knows no lease, no store, no network and no serializer; it reads no clock and makes no randomness.

mod error;
mod idem;
mod intent;
mod ports;
mod reason;
mod record;
mod state;
mod text;

pub use error::{Error, Result};
pub use idem::{IdempotencyKey, Secret, Secrets};
pub use intent::{Intent, Kind, Start, Target};
pub use ports::{
    Admission, Admitted, Among, Bus, Changes, Created, Found, Listed, Notice, SessionLog, StopRequest,
    Ticket, Topic, Version,
};
pub use reason::{Detail, Reason};
pub use record::{Session, UnixMs};
pub use state::{Event, Pipeline, State, Step};
pub use text::{CorrelationId, ProfileId, RecordingId, ServiceRef, SessionId};

/// Bounds of this crate, by name.
pub mod limits {
    /// Longest service reference, in bytes: it becomes part of a key.
    pub const SERVICE_REF: usize = 200;
    /// Longest recording id, in bytes.
    pub const RECORDING: usize = 128;
    /// Longest profile name, in bytes.
    pub const PROFILE: usize = 64;
    /// Longest correlation id, in bytes.
    pub const CORRELATION: usize = 128;
    /// Longest session id, in bytes.
    pub const SESSION: usize = 64;
    /// Furthest start within a recording, in milliseconds: a year.
    pub const START_MS: u64 = 366 * 24 * 3_600_000;
    /// Most sessions in one page.
    pub const PAGE: usize = 1_000;
}

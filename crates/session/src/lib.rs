//! TV sessions: the domain model.
//!
//! A client submits an [`Intent`]; a [`Session`] is the record that results. [`SessionState::transition`] is the state
//! machine. An [`IdempotencyKey`] maps identical intents to one session. The session API and the worker reach storage
//! through the ports [`SessionLog`] and [`Admission`].
//!
//! This crate does not depend on leases, stores, the network or a serializer; it reads no clock and uses no randomness.

mod error;
mod idempotency;
mod ids;
mod intent;
mod ports;
mod reason;
mod record;
mod state;

pub use error::{Error, Result};
pub use idempotency::{IdempotencyKey, Secret, Secrets};
pub use ids::{CorrelationId, ProfileId, RecordingId, ServiceRef, SessionId};
pub use intent::{Intent, StartIntent, Target, TargetKind};
pub use ports::{
    Admission, AdmissionOutcome, CreateOutcome, Mapping, SessionChanges, SessionFilter, SessionLog,
    SessionPage, StopRequest, Ticket, Version,
};
pub use reason::{Detail, Reason};
pub use record::{Session, UnixMs};
pub use state::{PipelineState, SessionEvent, SessionState, Transition};

/// Limits of this crate.
pub mod limits {
    /// Longest service reference, in bytes. It becomes part of a lease key.
    pub const SERVICE_REF: usize = 200;
    /// Longest recording id, in bytes.
    pub const RECORDING: usize = 128;
    /// Longest profile name, in bytes.
    pub const PROFILE: usize = 64;
    /// Longest correlation id, in bytes.
    pub const CORRELATION: usize = 128;
    /// Longest session id, in bytes.
    pub const SESSION: usize = 64;
    /// Highest start position within a recording, in milliseconds: a year.
    pub const START_MS: u64 = 366 * 24 * 3_600_000;
    /// Most sessions in a page of a listing.
    pub const PAGE: usize = 1_000;
}

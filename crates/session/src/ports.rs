//! Ports: what the session API and the worker need from storage.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::{CorrelationId, IdempotencyKey, Reason, Result, Session, SessionId, Target, UnixMs};

/// The version of a mapping; a later write has a greater version.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Version(pub u64);

/// A stored idempotency mapping.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// The idempotency key.
    pub key: IdempotencyKey,
    /// The version of the mapping.
    pub version: Version,
    /// The session; `None` when its record has been deleted.
    pub session: Option<Session>,
}

/// The outcome of creating a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CreateOutcome {
    /// Mapping and record were committed. The record in NEW is the start event.
    Created(Version),
    /// Another session was mapped to the key concurrently; nothing was written.
    AlreadyMapped,
}

/// Which sessions to list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionFilter {
    /// All stored sessions.
    All,
    /// Sessions that have not ended.
    Active,
}

/// One page of sessions, newest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionPage {
    /// The page.
    pub sessions: Vec<Session>,
    /// The number of matching sessions across all pages.
    pub total: usize,
}

/// A request to stop a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StopRequest {
    /// The session to stop.
    pub session: SessionId,
    /// The reason to record.
    pub reason: Reason,
    /// The client's name for this request.
    pub correlation: Option<CorrelationId>,
    /// The time of the request.
    pub at: UnixMs,
}

/// The stored sessions.
///
/// The session API creates a record and never writes it again; stop requests and the time of last access are stored
/// separately. Only the worker updates records.
///
/// [`create`](Self::create) and [`request_stop`](Self::request_stop) are also the events that wake workers: an
/// implementation must make them visible to workers when it commits them, for example through a watch on the store.
#[async_trait]
pub trait SessionLog: Send + Sync + 'static {
    /// Returns the mapping of the first key that leads to an active session, or else the first mapping found.
    async fn find_mapping(&self, keys: &[IdempotencyKey]) -> Result<Option<Mapping>>;

    /// Commits record and mapping atomically, if the key is not mapped or is mapped with exactly the version `instead_of`.
    async fn create(&self, session: &Session, instead_of: Option<Version>) -> Result<CreateOutcome>;

    /// Returns the session with this id.
    async fn get(&self, id: &SessionId) -> Result<Option<Session>>;

    /// Lists sessions, newest first.
    async fn list(&self, among: SessionFilter, offset: usize, limit: usize) -> Result<SessionPage>;

    /// Counts the stored sessions.
    async fn count(&self) -> Result<usize>;

    /// Requests the stop of a session. Returns `true` for the first request.
    async fn request_stop(&self, stop: &StopRequest) -> Result<bool>;

    /// Returns when a viewer was last seen.
    async fn last_seen(&self, id: &SessionId) -> Result<Option<UnixMs>>;

    /// Records that a viewer was seen. The stored time never decreases.
    async fn touch(&self, id: &SessionId, at: UnixMs) -> Result<()>;

    /// Subscribes to changes of a session.
    async fn changes(&self, id: &SessionId) -> Result<Box<dyn SessionChanges>>;
}

/// A subscription to the changes of one session.
#[async_trait]
pub trait SessionChanges: Send {
    /// Returns the next version of the record, or `None` when it was deleted or the log was closed. Intermediate versions
    /// may be skipped; the latest is always delivered. Cancel safe.
    async fn next(&mut self) -> Result<Option<Session>>;
}

/// Phase 1 of the migration: the API acquires the lease before it records the session.
#[async_trait]
pub trait Admission: Send + Sync + 'static {
    /// Acquires the lease of the target for a session that is about to be recorded.
    async fn admit(&self, target: &Target, session: &SessionId) -> Result<AdmissionOutcome>;

    /// Releases the lease because the session was not recorded.
    async fn release(&self, target: &Target, ticket: &Ticket) -> Result<()>;
}

/// The outcome of an admission.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AdmissionOutcome {
    /// The lease is held for the session; the worker continues it with this ticket.
    Granted(Ticket),
    /// The target is leased.
    Busy,
}

/// The secret with which a worker continues the lease that the API acquired. Never displayed.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket(Arc<str>);

impl Ticket {
    /// Wraps a secret.
    pub fn new(secret: impl AsRef<str>) -> Self {
        Self(Arc::from(secret.as_ref()))
    }

    /// The secret. Only the store may see it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

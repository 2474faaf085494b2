//! What the door and the orchestrator need of the world.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::{CorrelationId, IdempotencyKey, Reason, Result, Session, SessionId, Target, UnixMs};

/// Which write of a record this is; the greater is the later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Version(pub u64);

/// What a wish is mapped to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Under which key.
    pub key: IdempotencyKey,
    /// Which write of the mapping.
    pub version: Version,
    /// The session; none when its record is gone.
    pub session: Option<Session>,
}

/// The answer to a creation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Created {
    /// Mapping and record are there; this is the start event.
    Created(Version),
    /// Somebody else mapped the wish meanwhile; nothing changed.
    Taken,
}

/// Which sessions are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Among {
    /// All that are kept.
    All,
    /// Those that are not over.
    Live,
}

/// One page of sessions, newest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listed {
    /// The page.
    pub sessions: Vec<Session>,
    /// How many of them there are in all.
    pub total: usize,
}

/// A wish that a session ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StopRequest {
    /// Which.
    pub session: SessionId,
    /// Why.
    pub reason: Reason,
    /// What the client calls this request.
    pub correlation: Option<CorrelationId>,
    /// When it was asked.
    pub at: UnixMs,
}

/// The sessions of a house, kept somewhere.
///
/// The door creates a record and never writes it again; everything else it has to say (stop, somebody watches) it says
/// beside the record. The worker alone changes records.
#[async_trait]
pub trait SessionLog: Send + Sync + 'static {
    /// The mapping under the first of these keys that has one with a live session, else the first mapping at all.
    async fn find(&self, keys: &[IdempotencyKey]) -> Result<Option<Found>>;

    /// Writes record and mapping in one step: where nothing is mapped, or over exactly the mapping `instead_of`.
    async fn create(&self, session: &Session, instead_of: Option<Version>) -> Result<Created>;

    /// Takes a creation back, mapping first, if nobody has taken the session up. Answers whether it did.
    async fn withdraw(&self, session: &Session, version: Version) -> Result<bool>;

    /// Reads a session.
    async fn get(&self, id: &SessionId) -> Result<Option<Session>>;

    /// Lists sessions, newest first.
    async fn list(&self, among: Among, offset: usize, limit: usize) -> Result<Listed>;

    /// How many sessions are kept.
    async fn count(&self) -> Result<usize>;

    /// Asks for the end of a session. Answers whether this is the first time.
    async fn ask_stop(&self, stop: &StopRequest) -> Result<bool>;

    /// When somebody was last seen watching.
    async fn seen(&self, id: &SessionId) -> Result<Option<UnixMs>>;

    /// Notes that somebody watches. Never turns back.
    async fn touch(&self, id: &SessionId, at: UnixMs) -> Result<()>;

    /// The changes of a session from now on.
    async fn changes(&self, id: &SessionId) -> Result<Box<dyn Changes>>;
}

/// The changes of one session.
#[async_trait]
pub trait Changes: Send {
    /// The next state of the record; none when it is gone or the log ended. Changes may be skipped, the last never is.
    /// Dropping the future loses nothing.
    async fn next(&mut self) -> Result<Option<Session>>;
}

/// What is told on the bus. It only wakes: what is true is in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    /// About what.
    pub topic: Topic,
    /// Which session.
    pub session: SessionId,
}

/// The topics of the bus.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Topic {
    /// A session wants to start.
    Start,
    /// A session is wanted to stop.
    Stop,
}

impl Topic {
    /// The word in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Start => "session.start",
            Self::Stop => "session.stop",
        }
    }
}

/// What wakes workers.
#[async_trait]
pub trait Bus: Send + Sync + 'static {
    /// Tells whoever listens.
    async fn publish(&self, notice: &Notice) -> Result<()>;
}

/// Phase 1 of the migration: the door asks before it records.
#[async_trait]
pub trait Admission: Send + Sync + 'static {
    /// Asks for the channel on behalf of a session that is about to be recorded.
    async fn admit(&self, target: &Target, session: &SessionId) -> Result<Admitted>;

    /// Gives back what was admitted: the session was not recorded.
    async fn release(&self, target: &Target, ticket: &Ticket) -> Result<()>;
}

/// The answer of an admission.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Admitted {
    /// The channel is kept for the session; the worker goes on with this.
    Yes(Ticket),
    /// Somebody has the channel.
    Busy,
}

/// The secret with which a worker goes on with what the door took. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket(Arc<str>);

impl Ticket {
    /// Takes a secret.
    pub fn new(secret: impl AsRef<str>) -> Self {
        Self(Arc::from(secret.as_ref()))
    }

    /// The secret, for the store and nobody else.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

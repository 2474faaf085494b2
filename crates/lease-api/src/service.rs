//! What HTTP and gRPC share: the store and the limits of the service.

use std::sync::Arc;

use tenure_lease::{Acquired, Capabilities, Claim, Query, Refusal, Result, Store, Ttl};
use tenure_service::{Code, Problem};
use tokio::sync::Semaphore;

use crate::Options;
use crate::error::ApiError;
use crate::keyspace::Keyspace;

/// The target of log events about ownership.
pub(crate) const OWNERSHIP_TARGET: &str = "tenure::ownership";

/// Most claims that wait on keep-alive streams at once. Waiting calls are limited by their connections.
pub(crate) const MAX_PARKED_CLAIMS: usize = 65_536;

/// A store and the limits of its service.
pub(crate) struct LeaseService {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) capabilities: Capabilities,
    pub(crate) options: Options,
    /// Permits for waiting claims on the streams of all clients.
    pub(crate) parked_claims: Arc<Semaphore>,
}

impl LeaseService {
    pub(crate) fn new(store: Arc<dyn Store>, options: Options) -> Arc<Self> {
        let capabilities = store.capabilities();
        Arc::new(Self {
            store,
            capabilities,
            options,
            parked_claims: Arc::new(Semaphore::new(MAX_PARKED_CLAIMS)),
        })
    }

    /// A TTL that the engine supports.
    pub(crate) fn parse_ttl(&self, ms: u64) -> Result<Ttl> {
        let out_of_range = |_| Refusal::TtlOutOfRange {
            asked_ms: ms,
            engine: self.capabilities.engine,
            min_ms: self.capabilities.min_ttl.as_millis(),
            max_ms: self.capabilities.max_ttl.as_millis(),
        };
        let ttl = Ttl::from_millis(ms).map_err(out_of_range)?;
        self.capabilities.check(ttl)?;
        Ok(ttl)
    }

    /// Acquires a key. A waiting claim ends when the server shuts down; dropping the future leaves the queue.
    pub(crate) async fn acquire(&self, claim: Claim) -> Result<Acquired, ApiError> {
        if claim.wait.is_none() {
            return Ok(self.store.acquire(claim).await?);
        }
        tokio::select! {
            biased;
            acquired = self.store.acquire(claim) => Ok(acquired?),
            () = self.options.shutdown.wait() => Err(shutting_down().into()),
        }
    }

    /// The keys of records that a caller names.
    pub(crate) const fn keyspace(&self, admin: bool) -> Keyspace {
        Keyspace::new(&self.capabilities, admin)
    }

    /// The newest revision.
    pub(crate) async fn latest_revision(&self) -> Result<tenure_lease::Revision> {
        let query = Query { limit: 1, ..Query::new(tenure_lease::Prefix::default()) };
        Ok(self.store.list(&query).await?.revision)
    }
}

/// The problem for requests that a shutdown interrupts.
pub(crate) fn shutting_down() -> Problem {
    Problem::new(Code::SHUTTING_DOWN, "the server is shutting down; nothing happened, retry soon")
}

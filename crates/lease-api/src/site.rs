//! One store as its service sees it: what is the same over HTTP and gRPC.

use std::sync::Arc;

use lease::{Acquired, Capabilities, Claim, Query, Refusal, Result, Store, Ttl};
use service::{Code, Problem};
use tokio::sync::Semaphore;

use crate::Options;
use crate::trouble::Trouble;

/// The target of log lines about ownership.
pub(crate) const OWNERSHIP: &str = "tenure::ownership";

/// Claims that wait on streams at once; a call that waits is bounded by its connection.
pub(crate) const PARKED: usize = 65_536;

/// A store and the bounds of its service.
pub(crate) struct Site {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) capabilities: Capabilities,
    pub(crate) options: Options,
    /// Places for claims that wait on streams, of all clients together.
    pub(crate) parked: Arc<Semaphore>,
}

impl Site {
    pub(crate) fn new(store: Arc<dyn Store>, options: Options) -> Arc<Self> {
        let capabilities = store.capabilities();
        Arc::new(Self { store, capabilities, options, parked: Arc::new(Semaphore::new(PARKED)) })
    }

    /// A TTL that the engine can keep.
    pub(crate) fn ttl(&self, ms: u64) -> Result<Ttl> {
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

    /// Asks for a key. A claim that waits stops waiting when the server shuts down; dropping the future leaves
    /// the line.
    pub(crate) async fn acquire(&self, claim: Claim) -> Result<Acquired, Trouble> {
        if claim.wait.is_none() {
            return Ok(self.store.acquire(claim).await?);
        }
        tokio::select! {
            biased;
            answer = self.store.acquire(claim) => Ok(answer?),
            () = self.options.shutdown.wait() => Err(closing().into()),
        }
    }

    /// The newest revision.
    pub(crate) async fn revision(&self) -> Result<lease::Revision> {
        let query = Query { limit: 1, ..Query::new(lease::Prefix::default()) };
        Ok(self.store.list(&query).await?.revision)
    }
}

/// The answer to those whom a shutdown interrupts.
pub(crate) fn closing() -> Problem {
    Problem::new(Code::SHUTTING_DOWN, "the server is shutting down; nothing happened, ask again soon")
}

//! What an engine can promise.

use std::time::Duration;

use crate::{Refusal, Result, Ttl};

/// What an engine states about itself; the conformance suite holds it to this.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// Its name.
    pub engine: &'static str,
    /// The shortest TTL it can keep.
    pub min_ttl: Ttl,
    /// The longest TTL it grants.
    pub max_ttl: Ttl,
    /// How late at most an expiry is noticed by watch and history.
    pub expiry_lag: Duration,
    /// How long a failover of its server takes; zero when there is none.
    pub failover: Duration,
    /// What it may lose of what it acknowledged.
    pub loss: Loss,
}

/// What an engine may lose of what it acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Loss {
    /// Everything, with the process.
    Process,
    /// Nothing: it is on disk before the answer.
    Nothing,
    /// What the server's own persistence loses.
    ServerPersistence,
}

impl Capabilities {
    /// Refuses a TTL that the engine cannot keep.
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

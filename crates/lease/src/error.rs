//! Errors, split by whether the request may have taken effect.

use std::error::Error as StdError;

/// The result of a store verb.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a verb failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request is malformed; it had no effect.
    #[error("{what}: {why}")]
    Invalid {
        /// Which part of the request.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The store refused a well-formed request; it had no effect.
    #[error("{0}")]
    Refused(Refusal),
    /// The store is unavailable; the request had no effect.
    #[error("{engine}: {why}")]
    Unavailable {
        /// Which engine.
        engine: &'static str,
        /// Why, for an operator.
        why: String,
        /// The cause.
        #[source]
        source: Option<Box<dyn StdError + Send + Sync>>,
    },
    /// The request was sent and no response came: it may have taken effect.
    #[error("{engine}: outcome unknown: {why}")]
    Unknown {
        /// Which engine.
        engine: &'static str,
        /// Why, for an operator.
        why: String,
        /// The cause.
        #[source]
        source: Option<Box<dyn StdError + Send + Sync>>,
    },
}

/// A refusal that a retry does not change.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The token has served its reign, or was released before it had one.
    #[error("the token is spent: a token serves one reign, make a new one for each claim")]
    TokenSpent,
    /// The engine does not grant such a TTL.
    #[error("a ttl of {asked_ms} ms is outside the range of {engine} ({min_ms} to {max_ms} ms)")]
    TtlOutOfRange {
        /// The requested TTL.
        asked_ms: u64,
        /// The engine.
        engine: &'static str,
        /// Its shortest TTL.
        min_ms: u64,
        /// Its longest TTL.
        max_ms: u64,
    },
    /// A bound was reached.
    #[error("too many {what}: the limit is {limit}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
    /// A record and a lease cannot share a key.
    #[error("{key} is held as a lease and cannot be written as a record")]
    KeyIsLeased {
        /// The key.
        key: String,
    },
}

/// What is known about the effect of a failed request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It had no effect.
    NotApplied,
    /// It may have had an effect: read the store, never assume.
    Indeterminate,
}

impl Error {
    /// A malformed request.
    pub fn invalid(what: &'static str, why: impl Into<String>) -> Self {
        Self::Invalid { what, why: why.into() }
    }

    /// A store that is unavailable.
    pub fn unavailable(engine: &'static str, why: impl Into<String>) -> Self {
        Self::Unavailable { engine, why: why.into(), source: None }
    }

    /// A request that may have taken effect.
    pub fn unknown(engine: &'static str, why: impl Into<String>) -> Self {
        Self::Unknown { engine, why: why.into(), source: None }
    }

    /// The same error with its cause.
    pub fn because(mut self, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        if let Self::Unavailable { source, .. } | Self::Unknown { source, .. } = &mut self {
            *source = Some(cause.into());
        }
        self
    }

    /// Whether the request may have taken effect.
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Invalid { .. } | Self::Refused(_) | Self::Unavailable { .. } => Outcome::NotApplied,
            Self::Unknown { .. } => Outcome::Indeterminate,
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

//! What can go wrong, split by whether it may have happened.

use std::error::Error as StdError;

/// The result of a store verb.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a verb has no outcome.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request cannot be meant; nothing happened.
    #[error("{what}: {why}")]
    Invalid {
        /// Which part of the request.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The request is well formed and refused; nothing happened.
    #[error("{0}")]
    Refused(Refusal),
    /// The store cannot answer; nothing happened.
    #[error("{engine}: {why}")]
    Unavailable {
        /// Which engine.
        engine: &'static str,
        /// Why, in words for an operator.
        why: String,
        /// The cause.
        #[source]
        source: Option<Box<dyn StdError + Send + Sync>>,
    },
    /// The request left and no answer came: it may have happened.
    #[error("{engine}: outcome unknown: {why}")]
    Unknown {
        /// Which engine.
        engine: &'static str,
        /// Why, in words for an operator.
        why: String,
        /// The cause.
        #[source]
        source: Option<Box<dyn StdError + Send + Sync>>,
    },
}

/// A refusal that asking again will not change.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    /// The token has served its reign, or was given up before it had one.
    #[error("the token is spent: a token serves one reign, make a new one for each claim")]
    TokenSpent,
    /// The engine cannot keep such a TTL.
    #[error("a ttl of {asked_ms} ms is outside of what {engine} can keep ({min_ms} to {max_ms} ms)")]
    TtlOutOfRange {
        /// The TTL asked for.
        asked_ms: u64,
        /// The engine.
        engine: &'static str,
        /// Its shortest TTL.
        min_ms: u64,
        /// Its longest TTL.
        max_ms: u64,
    },
    /// A bound was reached.
    #[error("too many {what}: {limit} is the most")]
    TooMany {
        /// Of what.
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

/// Whether a failed request may have had an effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happened {
    /// It had none.
    No,
    /// It may have had one: ask the store, never assume.
    Maybe,
}

impl Error {
    /// A malformed request.
    pub fn invalid(what: &'static str, why: impl Into<String>) -> Self {
        Self::Invalid { what, why: why.into() }
    }

    /// A store that could not do it.
    pub fn unavailable(engine: &'static str, why: impl Into<String>) -> Self {
        Self::Unavailable { engine, why: why.into(), source: None }
    }

    /// A store that may have done it.
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

    /// Whether the request may have had an effect.
    pub const fn happened(&self) -> Happened {
        match self {
            Self::Invalid { .. } | Self::Refused(_) | Self::Unavailable { .. } => Happened::No,
            Self::Unknown { .. } => Happened::Maybe,
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

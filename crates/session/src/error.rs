//! What can go wrong, split by whether it may have happened.

/// The result of this crate and of its ports.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no outcome.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The request cannot be meant; nothing happened.
    #[error("{field}: {why}")]
    Invalid {
        /// Which field, as it is called on the wire.
        field: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The world behind a port cannot answer; nothing happened.
    #[error("{0}")]
    Unavailable(String),
    /// The request left and no answer came: it may have happened.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}

impl Error {
    pub(crate) fn invalid(field: &'static str, why: impl Into<String>) -> Self {
        Self::Invalid { field, why: why.into() }
    }
}

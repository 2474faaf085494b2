//! Errors, split by whether the operation may have taken effect.

/// The result type of this crate and of its ports.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The request is invalid and had no effect.
    #[error("{field}: {why}")]
    Invalid {
        /// The field, by its name on the wire.
        field: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// The system behind a port is unavailable and the request had no effect.
    #[error("{0}")]
    Unavailable(String),
    /// The request was sent and no response came, so it may have taken effect.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}

impl Error {
    pub(crate) fn invalid(field: &'static str, why: impl Into<String>) -> Self {
        Self::Invalid { field, why: why.into() }
    }
}

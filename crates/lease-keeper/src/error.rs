//! Errors of a keeper.

use tenure_lease::{Busy, Key, Outcome};

use crate::{Lost, PermitError};

/// The result of a keeper's operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The key is not available.
    #[error("{key} is busy: {}{}", .busy.reason.as_str(), describe_holder(.busy))]
    Busy {
        /// The key that was busy.
        key: Key,
        /// The holder, and for how long.
        busy: Busy,
    },
    /// The store failed, or the outcome is unknown. Nothing may be assumed held; a release is sent if one could be needed.
    #[error(transparent)]
    Store(#[from] tenure_lease::Error),
    /// The lease ended before it could be used.
    #[error("{key} was lost: {lost}")]
    Lost {
        /// The key.
        key: Key,
        /// Why it ended.
        lost: Lost,
    },
    /// The guard does not permit this now.
    #[error(transparent)]
    NotPermitted(#[from] PermitError),
    /// The store does not accept the gate's proof.
    #[error("the gate {key} is no longer held: the store rejected its proof")]
    Unproven {
        /// The gate's key.
        key: Key,
    },
}

impl Error {
    /// Whether the request may have had an effect.
    pub const fn outcome(&self) -> Outcome {
        match self {
            Self::Store(error) => error.outcome(),
            Self::Busy { .. } | Self::Lost { .. } | Self::NotPermitted(_) | Self::Unproven { .. } => {
                Outcome::NotApplied
            }
        }
    }

    /// Why the key was busy, if it was.
    pub const fn busy(&self) -> Option<&Busy> {
        match self {
            Self::Busy { busy, .. } => Some(busy),
            _ => None,
        }
    }
}

fn describe_holder(busy: &Busy) -> String {
    let holder = busy.holder.as_ref().map(|holder| format!(" by {holder}")).unwrap_or_default();
    let left = busy.remaining.map(|left| format!(" for {} ms", left.as_millis())).unwrap_or_default();
    holder + &left
}

//! What can go wrong for a holder.

use lease::{Busy, Happened, Key};

use crate::{Lost, NotSafe};

/// The result of a keeper's verb.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no guard, or no effect.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody or something else has the key.
    #[error("{key} is busy: {}{}", .busy.reason.as_str(), held_by(.busy))]
    Busy {
        /// The key that was busy.
        key: Key,
        /// Who and for how long.
        busy: Busy,
    },
    /// The store did not do it, or may have done it; nothing may be assumed held, and a release is on its way
    /// where one could be owed.
    #[error(transparent)]
    Store(#[from] lease::Error),
    /// The lease ended before it could be used.
    #[error("{key} was lost: {lost}")]
    Lost {
        /// The key.
        key: Key,
        /// Why it ended.
        lost: Lost,
    },
    /// The guard does not allow this now.
    #[error(transparent)]
    NotSafe(#[from] NotSafe),
    /// The store does not accept the gate's proof.
    #[error("the gate {key} is not held any more: the store refused its proof")]
    Unproven {
        /// The gate's key.
        key: Key,
    },
}

impl Error {
    /// Whether the request may have had an effect.
    pub const fn happened(&self) -> Happened {
        match self {
            Self::Store(error) => error.happened(),
            Self::Busy { .. } | Self::Lost { .. } | Self::NotSafe(_) | Self::Unproven { .. } => Happened::No,
        }
    }

    /// Who was in the way, if that is what happened.
    pub const fn busy(&self) -> Option<&Busy> {
        match self {
            Self::Busy { busy, .. } => Some(busy),
            _ => None,
        }
    }
}

fn held_by(busy: &Busy) -> String {
    let holder = busy.holder.as_ref().map(|holder| format!(" by {holder}")).unwrap_or_default();
    let left = busy.remaining.map(|left| format!(" for {} ms", left.as_millis())).unwrap_or_default();
    holder + &left
}

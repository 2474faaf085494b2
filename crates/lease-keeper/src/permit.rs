//! The permission for one act.

use std::time::Duration;

use lease::{Deadline, Fence, Generation, Key, Mode};

use crate::Lost;
use crate::core::Core;

/// Allows one act until its deadline. Borrows the lease and cannot be copied: ask for each act.
///
/// Between the permit and its effect the process may be stopped; an effect that must not come late carries
/// the [`Fence`] to where it lands.
#[derive(Debug)]
pub struct Permit<'lease> {
    core: &'lease Core,
    deadline: Deadline,
}

/// Why there is no permit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotSafe {
    /// The act would end after the deadline.
    #[error("only {left:?} are left of the lease")]
    TooLate {
        /// The time left.
        left: Duration,
    },
    /// The deadline has passed and the store has not confirmed the lease since.
    #[error("the lease is suspended")]
    Suspended,
    /// The lease is being handed over.
    #[error("the lease is being handed over")]
    Draining,
    /// The lease is over.
    #[error("the lease is lost: {0}")]
    Lost(Lost),
}

impl<'lease> Permit<'lease> {
    pub(crate) fn new(core: &'lease Core, deadline: Deadline) -> Self {
        Self { core, deadline }
    }

    /// The key owned.
    pub fn key(&self) -> &Key {
        &self.core.lease.key
    }

    /// The fencing number to send along.
    pub fn generation(&self) -> Generation {
        self.core.lease.generation
    }

    /// The instant before which the act must be over.
    pub fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// What a fenced write of this act proves. Carries the token: for the store and nobody else.
    pub fn fence(&self, mode: Mode) -> Fence {
        let lease = &self.core.lease;
        Fence { key: lease.key.clone(), token: self.core.token.clone(), generation: lease.generation, mode }
    }
}

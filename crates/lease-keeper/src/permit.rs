//! The permission for one act.

use std::time::Duration;

use tenure_lease::{Deadline, Fence, Generation, Key, Mode};

use crate::Lost;
use crate::held_lease::HeldLease;

/// Allows one act until its deadline. Borrows the lease and cannot be copied: each act needs its own.
///
/// The process may be stopped between the permit and its effect. An effect that must not come late carries the [`Fence`]
/// to the store that it writes to.
#[derive(Debug)]
pub struct Permit<'lease> {
    lease: &'lease HeldLease,
    deadline: Deadline,
}

/// Why a permit was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PermitError {
    /// The act would end after the deadline.
    #[error("the lease has only {left:?} left")]
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
    /// The lease has ended.
    #[error("the lease is lost: {0}")]
    Lost(Lost),
}

impl<'lease> Permit<'lease> {
    pub(crate) fn new(lease: &'lease HeldLease, deadline: Deadline) -> Self {
        Self { lease, deadline }
    }

    /// The key.
    pub fn key(&self) -> &Key {
        &self.lease.lease.key
    }

    /// The fencing number to send along.
    pub fn generation(&self) -> Generation {
        self.lease.lease.generation
    }

    /// When the act must have ended.
    pub fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// The fence for a write of this act. It contains the token: pass it only to the store.
    pub fn fence(&self, mode: Mode) -> Fence {
        let lease = &self.lease.lease;
        Fence { key: lease.key.clone(), token: self.lease.token.clone(), generation: lease.generation, mode }
    }
}

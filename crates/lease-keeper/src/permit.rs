//! The permission for one act.

use std::time::Duration;

use tenure_lease::{Deadline, Fence, Generation, Key, Mode};

use crate::Lost;
use crate::held_lease::HeldLease;

/// Allows one act until its deadline. Borrows the lease and cannot be copied: each act needs its own. Drop it when the act
/// has ended: a release or transfer of the lease waits for that, or for the deadline.
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
    /// The permit that `lease` has counted.
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

    /// When the act must have ended. Earlier than when the permit was given if the store has shortened the lease since.
    pub fn deadline(&self) -> Deadline {
        self.deadline.min(self.lease.deadline())
    }

    /// The fence for a write of this act. It contains the token: pass it only to the store.
    pub fn fence(&self, mode: Mode) -> Fence {
        let lease = &self.lease.lease;
        Fence { key: lease.key.clone(), token: self.lease.token.clone(), generation: lease.generation, mode }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.lease.end_permit();
    }
}

/// The permits of a lease that were given and not yet dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutstandingPermits {
    count: usize,
    /// The latest deadline among them.
    until: Option<Deadline>,
}

impl OutstandingPermits {
    pub(crate) fn add(&mut self, deadline: Deadline) {
        self.count += 1;
        self.until = self.until.max(Some(deadline));
    }

    /// Removes one; returns whether none is left.
    pub(crate) fn remove(&mut self) -> bool {
        self.count = self.count.saturating_sub(1);
        if self.count == 0 {
            self.until = None;
        }
        self.count == 0
    }

    /// When the last of them has expired; none if there are none.
    pub(crate) fn until(&self) -> Option<Deadline> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use tenure_lease::Tick;

    use super::*;

    #[test]
    fn the_latest_deadline_counts_until_the_last_permit_was_dropped() {
        let at = |nanos| Deadline::at(Tick::from_nanos(nanos));
        let mut permits = OutstandingPermits::default();
        assert_eq!(permits.until(), None);
        permits.add(at(5));
        permits.add(at(9));
        permits.add(at(7));
        assert_eq!(permits.until(), Some(at(9)));
        assert!(!permits.remove());
        assert!(!permits.remove());
        assert_eq!(permits.until(), Some(at(9)));
        assert!(permits.remove());
        assert_eq!(permits.until(), None);
        permits.add(at(3));
        assert_eq!(permits.until(), Some(at(3)));
    }
}

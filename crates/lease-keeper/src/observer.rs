//! Notifications about renewals.

use tenure_lease::{Error, Lease};

/// Is notified of the renewals of a keeper. Called in the renewer's tasks: must not block.
pub trait Observer: Send + Sync + 'static {
    /// The store confirmed a renewal.
    fn renewed(&self, lease: &Lease);

    /// A renewal failed, or its outcome is unknown.
    fn failed(&self, lease: &Lease, error: &Error);
}

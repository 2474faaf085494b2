//! Who wants to know of renewals.

use lease::{Error, Lease};

/// Told of the renewals of a keeper as their answers come. Called in the renewer's tasks: must not block.
pub trait Observer: Send + Sync + 'static {
    /// The store confirmed a lease.
    fn renewed(&self, lease: &Lease);

    /// A renewal was not answered, or not with yes or no.
    fn failed(&self, lease: &Lease, error: &Error);
}

//! Marks every claim as remote.
//!
//! An engine in this process takes the end of the process as the end of its holders and grants again at once. The work of
//! `tenure run` is another process, which may outlive this one: its lease ends only by its TTL.

use std::sync::Arc;

use tenure_lease::{Acquired, Claim, Result, Store, StoreLayer};

/// A store that marks every claim as remote.
pub(super) struct RemoteClaims {
    inner: Arc<dyn Store>,
}

impl RemoteClaims {
    pub(super) fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner }
    }
}

impl StoreLayer for RemoteClaims {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn acquire(&self, claim: Claim) -> Result<Acquired> {
        self.inner.acquire(claim.remote()).await
    }
}

//! A store whose claims are for work outside of our process.
//!
//! An engine in our own process takes the end of the process as the end of its holders, and grants again at once.
//! The work of `tenure run` is a process of its own: for it only the time counts, however we ended.

use std::sync::Arc;

use lease::{
    Acquired, Capabilities, Claim, Clock, Committed, Fence, Key, Leases, LogEntry, Op, Page, Prefix, Query,
    Record, Records, Reign, Release, Released, Renewal, Renewed, Result, Revision, Revoke, Revoked, Status,
    Store, Token, Transfer, Transferred, Verified, Watch, Wipe, Wiped,
};

/// A store that marks every claim as remote.
pub(super) struct Outside {
    inner: Arc<dyn Store>,
}

impl Outside {
    pub(super) fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner }
    }
}

#[async_trait::async_trait]
impl Leases for Outside {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock()
    }

    async fn acquire(&self, claim: Claim) -> Result<Acquired> {
        self.inner.acquire(claim.remote()).await
    }

    async fn renew(&self, items: &[Renewal]) -> Result<Vec<Renewed>> {
        self.inner.renew(items).await
    }

    async fn release(&self, release: Release) -> Result<Released> {
        self.inner.release(release).await
    }

    async fn transfer(&self, transfer: Transfer) -> Result<Transferred> {
        self.inner.transfer(transfer).await
    }

    async fn revoke(&self, revoke: Revoke) -> Result<Revoked> {
        self.inner.revoke(revoke).await
    }

    async fn verify(&self, key: &Key, token: &Token) -> Result<Verified> {
        self.inner.verify(key, token).await
    }

    async fn inspect(&self, key: &Key) -> Result<Status> {
        self.inner.inspect(key).await
    }

    async fn list(&self, query: &Query) -> Result<Page<Status>> {
        self.inner.list(query).await
    }

    async fn history(&self, key: &Key) -> Result<Vec<Reign>> {
        self.inner.history(key).await
    }

    async fn watch(&self, prefix: &Prefix, from: Option<Revision>) -> Result<Box<dyn Watch>> {
        self.inner.watch(prefix, from).await
    }

    async fn wipe(&self, wipe: Wipe) -> Result<Wiped> {
        self.inner.wipe(wipe).await
    }
}

#[async_trait::async_trait]
impl Records for Outside {
    async fn commit(&self, ops: &[Op]) -> Result<Committed> {
        self.inner.commit(ops).await
    }

    async fn write_fenced(&self, fence: &Fence, ops: &[Op]) -> Result<Committed> {
        self.inner.write_fenced(fence, ops).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.inner.get(key).await
    }

    async fn scan(&self, query: &Query) -> Result<Page<Record>> {
        self.inner.scan(query).await
    }

    async fn read_log(&self, log: &Key, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        self.inner.read_log(log, after, limit).await
    }
}

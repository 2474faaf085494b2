//! A store in front of a real one, with which a test decides what becomes of the next writes.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use lease::{
    Acquired, Capabilities, Claim, Clock, Committed, Error, Fence, Key, Leases, LogEntry, Op, Page, Prefix,
    Query, Record, Records, Reign, Release, Released, Renewal, Renewed, Result, Revision, Revoke, Revoked,
    Status, Store, Token, Transfer, Transferred, Verified, Watch, Wipe, Wiped,
};
use parking_lot::Mutex;

/// What becomes of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It lands, and its answer is lost.
    AnswerLost,
    /// It is lost itself.
    Lost,
    /// The store says that it is away.
    Away,
    /// It never comes back.
    Hangs,
}

/// The store in front.
pub struct Mishap {
    inner: Arc<dyn Store>,
    next: Mutex<VecDeque<Fate>>,
    /// As long as it is set, whatever is not scripted fares like this.
    always: Mutex<Option<Fate>>,
}

impl Mishap {
    /// In front of this one; nothing happens to writes yet.
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { inner, next: Mutex::default(), always: Mutex::default() })
    }

    /// What becomes of the next writes, in their order.
    pub fn next(&self, fates: &[Fate]) {
        self.next.lock().extend(fates);
    }

    /// What becomes of all others from now on.
    pub fn always(&self, fate: Option<Fate>) {
        *self.always.lock() = fate;
    }

    /// How many scripted ones are left.
    pub fn left(&self) -> usize {
        self.next.lock().len()
    }

    async fn fare<T>(&self, act: impl Future<Output = Result<T>>) -> Result<T> {
        let fate = self.next.lock().pop_front().or(*self.always.lock());
        let unknown = || Error::unknown("mishap", "no answer");
        match fate {
            None => act.await,
            Some(Fate::AnswerLost) => {
                act.await?;
                Err(unknown())
            }
            Some(Fate::Lost) => Err(unknown()),
            Some(Fate::Away) => Err(Error::unavailable("mishap", "away")),
            Some(Fate::Hangs) => std::future::pending().await,
        }
    }
}

#[async_trait]
impl Leases for Mishap {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.inner.clock()
    }

    async fn acquire(&self, claim: Claim) -> Result<Acquired> {
        self.inner.acquire(claim).await
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

#[async_trait]
impl Records for Mishap {
    async fn commit(&self, ops: &[Op]) -> Result<Committed> {
        self.fare(self.inner.commit(ops)).await
    }

    async fn write_fenced(&self, fence: &Fence, ops: &[Op]) -> Result<Committed> {
        self.fare(self.inner.write_fenced(fence, ops)).await
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

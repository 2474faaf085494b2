//! A day's worth of sessions that are over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lease::{
    Acquired, Capabilities, Claim, Clock, Committed, Fence, Key, Leases, LogEntry, Op, Page, Prefix, Query,
    Record, Records, Reign, Release, Released, Renewal, Renewed, Result, Revision, Revoke, Revoked, Status,
    Store, Token, Transfer, Transferred, Verified, Watch, Wipe, Wiped, limits,
};
use session::{Among, SessionLog, State};
use testkit::wait::until_async;

use crate::house::{House, LIMIT};
use crate::recovery::leave;

/// A store that counts how often records are read in bulk.
struct Counting {
    inner: Arc<dyn Store>,
    sessions: AtomicUsize,
    rounds: AtomicUsize,
}

#[async_trait::async_trait]
impl Leases for Counting {
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

#[async_trait::async_trait]
impl Records for Counting {
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
        match query.prefix.as_str() {
            "v3:session:" => self.sessions.fetch_add(1, Ordering::SeqCst),
            // Read once in every round.
            "v3:seen:" => self.rounds.fetch_add(1, Ordering::SeqCst),
            _ => 0,
        };
        self.inner.scan(query).await
    }

    async fn read_log(&self, log: &Key, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        self.inner.read_log(log, after, limit).await
    }
}

#[tokio::test]
async fn rounds_and_comparisons_do_not_read_what_is_over() {
    let mut house = House::memory().await;
    let over = leave(&house, "1:0:1:", State::Stopped, None).await;
    let record = house.store.get(&Key::new(format!("v3:session:{over}")).unwrap()).await.unwrap().unwrap();
    // One page and a little.
    for number in 0..limits::BATCH {
        let key = Key::new(format!("v3:session:over-{number}")).unwrap();
        house.store.commit(&[Op::Put { key, value: record.value.clone(), ttl: None }]).await.unwrap();
    }
    let store = Arc::new(Counting {
        inner: house.store.clone(),
        sessions: AtomicUsize::new(0),
        rounds: AtomicUsize::new(0),
    });
    house.store = store.clone();
    let worker = house.worker().await;
    let id = house.wish("1:0:2:", "high").await;
    house.until(&id, State::Ready).await;
    let (rounds, begun) = (|| store.rounds.load(Ordering::SeqCst), store.sessions.load(Ordering::SeqCst));
    assert_eq!(begun, 4, "the recovery and the first round read everything, two pages each");
    let before = rounds();
    until_async("there were some rounds", LIMIT, async || rounds() >= before + 5).await.unwrap();
    worker.reconcile_now().await;
    assert_eq!(store.sessions.load(Ordering::SeqCst), begun);
    let live = house.log.list(Among::Live, 0, 10).await.unwrap();
    assert_eq!((live.total, &live.sessions[0].id), (1, &id));
    assert_eq!(house.log.count().await.unwrap(), limits::BATCH + 2);
    worker.close().await;
}

//! Any store, with its verbs counted and timed.

use std::sync::Arc;

use async_trait::async_trait;
use lease::{
    Acquired, Announcement, Capabilities, Claim, Clock, Committed, Fence, Happened, Key, Leases, LogEntry,
    Op, Page, Prefix, Query, Record, Records, Reign, Release, Released, Renewal, Renewed, Result, Revision,
    Revoke, Revoked, Status, Tick, Token, Transfer, Transferred, Verified, Watch, Wipe, Wiped,
};

/// A store whose verbs are counted and timed under the names of the observability guide.
pub struct Metered(Arc<dyn lease::Store>);

impl Metered {
    /// Counts what goes through to `store`.
    pub fn new(store: impl Into<Arc<dyn lease::Store>>) -> Self {
        Self(store.into())
    }

    fn done<T>(
        &self,
        verb: &'static str,
        start: Tick,
        answer: Result<T>,
        word: fn(&T) -> &'static str,
    ) -> Result<T> {
        let result = match &answer {
            Ok(outcome) => word(outcome),
            Err(error) if error.happened() == Happened::Maybe => "unknown",
            Err(lease::Error::Unavailable { .. }) => "unavailable",
            Err(_) => "refused",
        };
        metrics::counter!("store_ops_total", "verb" => verb, "result" => result).increment(1);
        let took = self.0.clock().now().since(start);
        metrics::histogram!("store_op_seconds", "verb" => verb).record(took.as_secs_f64());
        answer
    }

    fn start(&self) -> Tick {
        self.0.clock().now()
    }
}

fn ok<T>(_: &T) -> &'static str {
    "ok"
}

fn committed(outcome: &Committed) -> &'static str {
    match outcome {
        Committed::Written { .. } => "written",
        Committed::Conflict { .. } => "conflict",
        Committed::FencedOut { .. } => {
            metrics::counter!("lease_fenced_out_total").increment(1);
            "fenced_out"
        }
    }
}

#[async_trait]
impl Leases for Metered {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.0.clock()
    }

    async fn acquire(&self, claim: Claim) -> Result<Acquired> {
        // A wait is the caller's choice and says nothing about the store.
        let verb = if claim.wait.is_some() { "acquire_waiting" } else { "acquire" };
        let start = self.start();
        let answer = self.0.acquire(claim).await;
        self.done(verb, start, answer, |outcome| match outcome {
            Acquired::Granted(_) => "granted",
            Acquired::Busy(busy) => busy.reason.as_str(),
        })
    }

    async fn renew(&self, items: &[Renewal]) -> Result<Vec<Renewed>> {
        let start = self.start();
        let answer = self.0.renew(items).await;
        if let Ok(outcomes) = &answer {
            let lost = outcomes.iter().filter(|outcome| matches!(outcome, Renewed::Lost(_))).count() as u64;
            metrics::counter!("store_renewals_total", "result" => "renewed")
                .increment(items.len() as u64 - lost);
            metrics::counter!("store_renewals_total", "result" => "lost").increment(lost);
        }
        self.done("renew", start, answer, ok)
    }

    async fn release(&self, release: Release) -> Result<Released> {
        let start = self.start();
        let answer = self.0.release(release).await;
        self.done("release", start, answer, |outcome| match outcome {
            Released::Released => "released",
            Released::NotHeld => "not_held",
        })
    }

    async fn transfer(&self, transfer: Transfer) -> Result<Transferred> {
        let start = self.start();
        let answer = self.0.transfer(transfer).await;
        self.done("transfer", start, answer, |outcome| match outcome {
            Transferred::Transferred(_) => "transferred",
            Transferred::NotHeld => "not_held",
            Transferred::NoSuccessor => "no_successor",
        })
    }

    async fn revoke(&self, revoke: Revoke) -> Result<Revoked> {
        let start = self.start();
        let answer = self.0.revoke(revoke).await;
        self.done("revoke", start, answer, |outcome| match outcome {
            Revoked::Revoked { .. } => "revoked",
            Revoked::Stale { .. } => "stale",
        })
    }

    async fn verify(&self, key: &Key, token: &Token) -> Result<Verified> {
        let start = self.start();
        let answer = self.0.verify(key, token).await;
        self.done("verify", start, answer, ok)
    }

    async fn inspect(&self, key: &Key) -> Result<Status> {
        let start = self.start();
        let answer = self.0.inspect(key).await;
        self.done("inspect", start, answer, ok)
    }

    async fn list(&self, query: &Query) -> Result<Page<Status>> {
        let start = self.start();
        let answer = self.0.list(query).await;
        self.done("list", start, answer, ok)
    }

    async fn history(&self, key: &Key) -> Result<Vec<Reign>> {
        let start = self.start();
        let answer = self.0.history(key).await;
        self.done("history", start, answer, ok)
    }

    async fn watch(&self, prefix: &Prefix, from: Option<Revision>) -> Result<Box<dyn Watch>> {
        let start = self.start();
        let answer = self.0.watch(prefix, from).await;
        self.done("watch", start, answer, ok)
    }

    async fn watch_any(&self, prefixes: &[Prefix], from: Option<Revision>) -> Result<Box<dyn Watch>> {
        let start = self.start();
        let answer = self.0.watch_any(prefixes, from).await;
        self.done("watch", start, answer, ok)
    }

    async fn wipe(&self, wipe: Wipe) -> Result<Wiped> {
        let start = self.start();
        let answer = self.0.wipe(wipe).await;
        if let Ok(Wiped::Wiped { count }) = &answer {
            metrics::counter!("lease_wiped_total").increment(*count as u64);
        }
        self.done("wipe", start, answer, |outcome| match outcome {
            Wiped::Wiped { .. } => "wiped",
            Wiped::Unproven => "unproven",
        })
    }
}

#[async_trait]
impl Records for Metered {
    async fn commit(&self, ops: &[Op]) -> Result<Committed> {
        let start = self.start();
        let answer = self.0.commit(ops).await;
        self.done("commit", start, answer, committed)
    }

    async fn write_fenced(&self, fence: &Fence, ops: &[Op]) -> Result<Committed> {
        let start = self.start();
        let answer = self.0.write_fenced(fence, ops).await;
        self.done("write_fenced", start, answer, committed)
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        let start = self.start();
        let answer = self.0.get(key).await;
        self.done("get", start, answer, ok)
    }

    async fn scan(&self, query: &Query) -> Result<Page<Record>> {
        let start = self.start();
        let answer = self.0.scan(query).await;
        self.done("scan", start, answer, ok)
    }

    async fn discover(&self, prefix: &Prefix) -> Result<Vec<Record>> {
        let start = self.start();
        let answer = self.0.discover(prefix).await;
        self.done("discover", start, answer, ok)
    }

    async fn announce(&self, items: &[Announcement]) -> Result<Vec<bool>> {
        let start = self.start();
        let answer = self.0.announce(items).await;
        self.done("announce", start, answer, ok)
    }

    async fn read_log(&self, log: &Key, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        let start = self.start();
        let answer = self.0.read_log(log, after, limit).await;
        self.done("read_log", start, answer, ok)
    }
}

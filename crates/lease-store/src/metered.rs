//! Any store, with its verbs counted and timed.

use std::sync::{Arc, OnceLock};

use metrics::{Counter, Histogram};
use tenure_lease::{
    Acquired, Announcement, Claim, Clock, Committed, Fence, Key, LogEntry, Op, Outcome, Page, Prefix, Query,
    Record, Reign, Release, Released, Renewal, Renewed, Result, Revision, Revoke, Revoked, Status,
    StoreLayer, Tick, Token, Transfer, Transferred, Verified, Watch, Wipe, Wiped,
};

/// A store whose verbs are counted and timed under the names of the observability guide. What collects metrics must be
/// installed before the first verb: each metric is looked for once.
pub struct Metered {
    store: Arc<dyn tenure_lease::Store>,
    clock: Arc<dyn Clock>,
    ops: MetricCache<(&'static str, &'static str), Counter>,
    seconds: MetricCache<&'static str, Histogram>,
}

/// Metrics by their labels: looking one up in the recorder takes as long as most verbs.
struct MetricCache<L, M>([OnceLock<(L, M)>; CAPACITY]);

/// Cached metrics; others are looked up each time.
const CAPACITY: usize = 64;

impl<L: Copy + PartialEq, M> MetricCache<L, M> {
    fn new() -> Self {
        Self([const { OnceLock::new() }; CAPACITY])
    }

    /// Uses the metric with these labels.
    fn with(&self, labels: L, find: impl Fn() -> M, act: impl FnOnce(&M)) {
        for entry in &self.0 {
            let (kept, metric) = entry.get_or_init(|| (labels, find()));
            if *kept == labels {
                return act(metric);
            }
        }
        act(&find());
    }
}

impl Metered {
    /// Counts what goes through to `store`.
    pub fn new(store: impl Into<Arc<dyn tenure_lease::Store>>) -> Self {
        let store = store.into();
        let clock = store.clock();
        Self { store, clock, ops: MetricCache::new(), seconds: MetricCache::new() }
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
            Err(error) if error.outcome() == Outcome::Indeterminate => "unknown",
            Err(tenure_lease::Error::Unavailable { .. }) => "unavailable",
            Err(_) => "refused",
        };
        let op = || metrics::counter!("tenure_store_ops_total", "verb" => verb, "result" => result);
        self.ops.with((verb, result), op, |ops| ops.increment(1));
        let took = self.clock.now().since(start);
        let seconds = || metrics::histogram!("tenure_store_op_seconds", "verb" => verb);
        self.seconds.with(verb, seconds, |seconds| seconds.record(took.as_secs_f64()));
        answer
    }

    fn start(&self) -> Tick {
        self.clock.now()
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
            metrics::counter!("tenure_lease_fenced_out_total").increment(1);
            "fenced_out"
        }
    }
}

impl StoreLayer for Metered {
    fn inner(&self) -> &dyn tenure_lease::Store {
        &*self.store
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    async fn acquire(&self, claim: Claim) -> Result<Acquired> {
        // A wait is the caller's choice and says nothing about the store.
        let verb = if claim.wait.is_some() { "acquire_waiting" } else { "acquire" };
        let start = self.start();
        let answer = self.store.acquire(claim).await;
        self.done(verb, start, answer, |outcome| match outcome {
            Acquired::Granted(_) => "granted",
            Acquired::Busy(busy) => busy.reason.as_str(),
        })
    }

    async fn renew(&self, items: &[Renewal]) -> Result<Vec<Result<Renewed>>> {
        let start = self.start();
        let answer = self.store.renew(items).await;
        if let Ok(outcomes) = &answer {
            let count = |wanted: fn(&Result<Renewed>) -> bool| {
                outcomes.iter().filter(|outcome| wanted(outcome)).count() as u64
            };
            let (lost, failed) =
                (count(|outcome| matches!(outcome, Ok(Renewed::Lost(_)))), count(Result::is_err));
            metrics::counter!("tenure_store_renewals_total", "result" => "renewed")
                .increment(outcomes.len() as u64 - lost - failed);
            metrics::counter!("tenure_store_renewals_total", "result" => "lost").increment(lost);
            metrics::counter!("tenure_store_renewals_total", "result" => "failed").increment(failed);
        }
        self.done("renew", start, answer, ok)
    }

    async fn release(&self, release: Release) -> Result<Released> {
        let start = self.start();
        let answer = self.store.release(release).await;
        self.done("release", start, answer, |outcome| match outcome {
            Released::Released => "released",
            Released::NotHeld => "not_held",
        })
    }

    async fn transfer(&self, transfer: Transfer) -> Result<Transferred> {
        let start = self.start();
        let answer = self.store.transfer(transfer).await;
        self.done("transfer", start, answer, |outcome| match outcome {
            Transferred::Transferred(_) => "transferred",
            Transferred::NotHeld => "not_held",
            Transferred::NoSuccessor => "no_successor",
        })
    }

    async fn revoke(&self, revoke: Revoke) -> Result<Revoked> {
        let start = self.start();
        let answer = self.store.revoke(revoke).await;
        self.done("revoke", start, answer, |outcome| match outcome {
            Revoked::Revoked { .. } => "revoked",
            Revoked::Stale { .. } => "stale",
        })
    }

    async fn verify(&self, key: &Key, token: &Token) -> Result<Verified> {
        let start = self.start();
        let answer = self.store.verify(key, token).await;
        self.done("verify", start, answer, ok)
    }

    async fn inspect(&self, key: &Key) -> Result<Status> {
        let start = self.start();
        let answer = self.store.inspect(key).await;
        self.done("inspect", start, answer, ok)
    }

    async fn list(&self, query: &Query) -> Result<Page<Status>> {
        let start = self.start();
        let answer = self.store.list(query).await;
        self.done("list", start, answer, ok)
    }

    async fn history(&self, key: &Key) -> Result<Vec<Reign>> {
        let start = self.start();
        let answer = self.store.history(key).await;
        self.done("history", start, answer, ok)
    }

    async fn watch(&self, prefix: &Prefix, from: Option<Revision>) -> Result<Box<dyn Watch>> {
        let start = self.start();
        let answer = self.store.watch(prefix, from).await;
        self.done("watch", start, answer, ok)
    }

    async fn watch_any(&self, prefixes: &[Prefix], from: Option<Revision>) -> Result<Box<dyn Watch>> {
        let start = self.start();
        let answer = self.store.watch_any(prefixes, from).await;
        self.done("watch", start, answer, ok)
    }

    async fn wipe(&self, wipe: Wipe) -> Result<Wiped> {
        let start = self.start();
        let answer = self.store.wipe(wipe).await;
        if let Ok(Wiped::Wiped { count }) = &answer {
            metrics::counter!("tenure_lease_wiped_total").increment(*count as u64);
        }
        self.done("wipe", start, answer, |outcome| match outcome {
            Wiped::Wiped { .. } => "wiped",
            Wiped::Unproven => "unproven",
        })
    }

    async fn commit(&self, ops: &[Op]) -> Result<Committed> {
        let start = self.start();
        let answer = self.store.commit(ops).await;
        self.done("commit", start, answer, committed)
    }

    async fn write_fenced(&self, fence: &Fence, ops: &[Op]) -> Result<Committed> {
        let start = self.start();
        let answer = self.store.write_fenced(fence, ops).await;
        self.done("write_fenced", start, answer, committed)
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        let start = self.start();
        let answer = self.store.get(key).await;
        self.done("get", start, answer, ok)
    }

    async fn scan(&self, query: &Query) -> Result<Page<Record>> {
        let start = self.start();
        let answer = self.store.scan(query).await;
        self.done("scan", start, answer, ok)
    }

    async fn discover(&self, prefix: &Prefix) -> Result<Vec<Record>> {
        let start = self.start();
        let answer = self.store.discover(prefix).await;
        self.done("discover", start, answer, ok)
    }

    async fn announce(&self, items: &[Announcement]) -> Result<Vec<bool>> {
        let start = self.start();
        let answer = self.store.announce(items).await;
        self.done("announce", start, answer, ok)
    }

    async fn read_log(&self, log: &Key, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        let start = self.start();
        let answer = self.store.read_log(log, after, limit).await;
        self.done("read_log", start, answer, ok)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_metric_is_looked_up_once_and_beyond_the_capacity_each_time() {
        let (cache, lookups, used) = (MetricCache::new(), Cell::new(0), Cell::new(0));
        let using = |labels: usize| {
            let find = || {
                lookups.set(lookups.get() + 1);
                labels
            };
            cache.with(labels, find, |metric| {
                assert_eq!(*metric, labels, "another one's");
                used.set(used.get() + 1);
            });
            lookups.take()
        };
        assert_eq!((using(7), using(7), using(8), using(7)), (1, 0, 1, 0));
        for labels in 10..10 + CAPACITY {
            using(labels);
        }
        assert_eq!((using(7), using(1_000), using(1_000)), (0, 1, 1));
        assert_eq!(used.get(), CAPACITY + 7);
    }
}

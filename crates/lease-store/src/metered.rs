//! Any store, with its verbs counted and timed.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use lease::{
    Acquired, Announcement, Capabilities, Claim, Clock, Committed, Fence, Happened, Key, Leases, LogEntry,
    Op, Page, Prefix, Query, Record, Records, Reign, Release, Released, Renewal, Renewed, Result, Revision,
    Revoke, Revoked, Status, Tick, Token, Transfer, Transferred, Verified, Watch, Wipe, Wiped,
};
use metrics::{Counter, Histogram};

/// A store whose verbs are counted and timed under the names of the observability guide. What collects metrics must be
/// installed before the first verb: each metric is looked for once.
pub struct Metered {
    store: Arc<dyn lease::Store>,
    clock: Arc<dyn Clock>,
    ops: Found<(&'static str, &'static str), Counter>,
    seconds: Found<&'static str, Histogram>,
}

/// Metrics that were found by their labels once: finding one takes as long as most verbs.
struct Found<L, M>([OnceLock<(L, M)>; MOST]);

/// Most that are kept; what is beyond is found anew each time.
const MOST: usize = 64;

impl<L: Copy + PartialEq, M> Found<L, M> {
    fn new() -> Self {
        Self([const { OnceLock::new() }; MOST])
    }

    /// Uses the metric with these labels.
    fn with(&self, labels: L, find: impl Fn() -> M, act: impl FnOnce(&M)) {
        for place in &self.0 {
            let (kept, metric) = place.get_or_init(|| (labels, find()));
            if *kept == labels {
                return act(metric);
            }
        }
        act(&find());
    }
}

impl Metered {
    /// Counts what goes through to `store`.
    pub fn new(store: impl Into<Arc<dyn lease::Store>>) -> Self {
        let store = store.into();
        let clock = store.clock();
        Self { store, clock, ops: Found::new(), seconds: Found::new() }
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
        let op = || metrics::counter!("store_ops_total", "verb" => verb, "result" => result);
        self.ops.with((verb, result), op, |ops| ops.increment(1));
        let took = self.clock.now().since(start);
        let seconds = || metrics::histogram!("store_op_seconds", "verb" => verb);
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
            metrics::counter!("lease_fenced_out_total").increment(1);
            "fenced_out"
        }
    }
}

#[async_trait]
impl Leases for Metered {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
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

    async fn renew(&self, items: &[Renewal]) -> Result<Vec<Renewed>> {
        let start = self.start();
        let answer = self.store.renew(items).await;
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
    fn a_metric_is_looked_for_once_and_beyond_the_bound_each_time() {
        let (found, looks, used) = (Found::new(), Cell::new(0), Cell::new(0));
        let using = |labels: usize| {
            let find = || {
                looks.set(looks.get() + 1);
                labels
            };
            found.with(labels, find, |metric| {
                assert_eq!(*metric, labels, "another one's");
                used.set(used.get() + 1);
            });
            looks.take()
        };
        assert_eq!((using(7), using(7), using(8), using(7)), (1, 0, 1, 0));
        for labels in 10..10 + MOST {
            using(labels);
        }
        assert_eq!((using(7), using(1_000), using(1_000)), (0, 1, 1));
        assert_eq!(used.get(), MOST + 7);
    }
}

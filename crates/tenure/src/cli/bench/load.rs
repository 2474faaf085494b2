//! Clients that send the next request as soon as the last one completes.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{
    Acquired, Claim, Clock, Entropy, Generation, Holder, Key, Release, Renewal, Renewed, Store, Tick, Token,
    Ttl,
};
use tenure_store::{BootClock, OsEntropy};
use tokio::task::JoinSet;

use super::Histogram;
use crate::cli::view::describe_busy;
use crate::cli::{Failure, Result, exit};

/// The TTL of leases, where the engine allows it. They are released at the end.
const TTL_MS: u64 = 30_000;

/// The measured operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Work {
    /// Acquire a free key and release it.
    Cycle,
    /// Renew one lease.
    Renew,
}

impl Work {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Cycle => "acquire+release",
            Self::Renew => "renew",
        }
    }
}

/// The clients of one store, each with its own key.
pub(super) struct Load {
    store: Arc<dyn Store>,
    keys: Vec<Key>,
    holder: Holder,
    ttl: Ttl,
}

/// The latencies of successful operations of a client, and the number of failed ones.
pub(super) type Tally = (Histogram, u64);

impl Load {
    pub(super) fn new(store: Arc<dyn Store>, clients: u32) -> Result<Self> {
        let mut bytes = [0; 4];
        OsEntropy.fill(&mut bytes);
        let run = u32::from_be_bytes(bytes);
        let key = |client| Key::new(format!("tenure-bench/{run:08x}/{client}"));
        let keys = (0..clients).map(key).collect::<tenure_lease::Result<_>>()?;
        let ttl = Ttl::from_millis(TTL_MS)?.min(store.capabilities().max_ttl);
        Ok(Self { store, keys, holder: Holder::new("tenure-bench")?, ttl })
    }

    /// Starts the clients, which stop `limit` after the start.
    pub(super) async fn start(&self, work: Work, limit: Duration) -> Result<(Tick, JoinSet<Tally>)> {
        let mut callers = Vec::with_capacity(self.keys.len());
        for key in &self.keys {
            let caller = BenchClient {
                store: self.store.clone(),
                key: key.clone(),
                holder: self.holder.clone(),
                ttl: self.ttl,
            };
            let held = match work {
                Work::Cycle => None,
                Work::Renew => Some(caller.take_one().await?),
            };
            callers.push((caller, held));
        }
        let start = BootClock.now();
        let mut running = JoinSet::new();
        for (caller, held) in callers {
            running.spawn(caller.run(held, start + limit));
        }
        Ok((start, running))
    }
}

struct BenchClient {
    store: Arc<dyn Store>,
    key: Key,
    holder: Holder,
    ttl: Ttl,
}

impl BenchClient {
    async fn run(self, held: Option<(Token, Generation)>, end: Tick) -> Tally {
        let (mut latencies, mut errors) = (Histogram::default(), 0);
        let mut now = BootClock.now();
        while now < end {
            let good = match &held {
                Some((token, generation)) => self.renew(token, *generation).await,
                None => self.cycle().await,
            };
            let after = BootClock.now();
            if good {
                latencies.record(after.since(now));
            } else {
                errors += 1;
                // Pause, so that immediate failures do not dominate.
                BootClock.sleep_until(after + Duration::from_millis(10)).await;
            }
            // An engine in this process may never wait; yield to its tasks.
            tokio::task::yield_now().await;
            now = BootClock.now();
        }
        if let Some((token, _)) = held {
            drop(self.store.release(Release::new(self.key.clone(), token)).await);
        }
        (latencies, errors)
    }

    async fn acquire(&self, token: &Token) -> tenure_lease::Result<Acquired> {
        let claim = Claim::new(self.key.clone(), self.holder.clone(), token.clone(), self.ttl);
        self.store.acquire(claim).await
    }

    async fn take_one(&self) -> Result<(Token, Generation)> {
        let token = Token::random(&OsEntropy);
        match self.acquire(&token).await? {
            Acquired::Granted(grant) => Ok((token, grant.lease.generation)),
            Acquired::Busy(busy) => Err(Failure::new(exit::NOT_NOW, "BUSY", describe_busy(&self.key, &busy))
                .during("cannot run the benchmark")),
        }
    }

    async fn cycle(&self) -> bool {
        let token = Token::random(&OsEntropy);
        let granted = matches!(self.acquire(&token).await, Ok(Acquired::Granted(_)));
        let released = self.store.release(Release::new(self.key.clone(), token)).await;
        granted && released.is_ok()
    }

    async fn renew(&self, token: &Token, generation: Generation) -> bool {
        let items = [Renewal { key: self.key.clone(), token: token.clone(), generation, ttl: None }];
        let answer = self.store.renew(&items).await;
        answer.is_ok_and(|answers| matches!(answers.first(), Some(Ok(Renewed::Renewed { .. }))))
    }
}

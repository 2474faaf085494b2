//! Leases and records in a Redis server.
//!
//! Every verb is one script, atomic in the server and decided by the server's clock. Concurrent claims and releases
//! share calls. A lease key is a plain string that other programs see; keys under `tenure:` hold the rest. Redis Cluster
//! is not supported, because these keys have no hash tag. `docs/adr/0006-redis.md` describes the layout.

mod batcher;
mod client;
mod connection;
mod discovery;
mod event_follower;
mod fault;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod in_flight;
mod leases;
mod options;
mod prefix_cache;
mod profile;
pub mod protocol;
mod push_connection;
mod records;
mod request_queue;
mod sweep;
mod waiting;
mod wake_ups;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure_lease::{
    Acquired, Announcement, Capabilities, Claim, Clock, Committed, Durability, Error, Fence, Key, Leases,
    Limits, LogEntry, Op, Page, Prefix, Query, Record, Records, Reign, Release, Released, Renewal, Renewed,
    Result, Revision, Revoke, Revoked, Status, Token, Transfer, Transferred, Ttl, Verified, Wakeup, Watch,
    Wipe, Wiped, fallback, limits,
};
use tokio::task::JoinSet;

use self::batcher::RequestBatcher;
use self::client::Client;
use self::event_follower::EventFollower;
use self::fault::{ENGINE, too_many, unexpected_reply};
use self::options::{MIN_TTL_MS, Options};
use self::prefix_cache::PrefixCache;
use self::protocol::acquire::ClaimRequest;
use self::waiting::{QuarantineWarning, ReleaseOnDrop, acquire_or_wait, acquired};
use self::wake_ups::WakeUps;
use crate::BootClock;

/// How late an expiry is noticed at most: the interval of the sweep, and the delay of a busy server.
const EXPIRY_LAG: Duration = Duration::from_secs(2);

/// A store in a Redis server. Dropping it ends its tasks; leases that it holds end with their TTL.
pub struct Redis {
    client: Arc<Client>,
    /// The connection for writes of records. It is separate where they wait for replicas, which delays all calls behind
    /// them.
    record_client: Arc<Client>,
    batcher: RequestBatcher,
    wake_ups: Arc<WakeUps>,
    follower: Arc<EventFollower>,
    quarantine: QuarantineWarning,
    prefix_cache: Arc<PrefixCache>,
    capabilities: Capabilities,
    _tasks: JoinSet<()>,
}

impl Redis {
    /// Opens `redis://HOST:PORT/DB?max_ttl_ms=30000&quarantine_ms=30000&op_timeout_ms=2000&wait_replicas=0` and waits
    /// until the server answers once. A server that may delete live leases is refused, unless `allow_eviction=true`.
    pub async fn open(url: &str) -> Result<Self> {
        Self::open_with(url, Arc::new(BootClock)).await
    }

    /// [`Redis::open`] with the caller's clock.
    pub async fn open_with(url: &str, clock: Arc<dyn Clock>) -> Result<Self> {
        let options = Options::parse(url)?;
        let capabilities = Capabilities {
            engine: ENGINE,
            min_ttl: Ttl::from_millis(MIN_TTL_MS)?,
            max_ttl: options.max_ttl,
            expiry_lag: EXPIRY_LAG,
            failover: Duration::ZERO,
            dies_with_process: false,
            ttl_step: Duration::from_millis(1),
            durability: Durability::ServerPersistence,
            limits: Limits::default(),
            wakes_waiters: Wakeup::Push,
            shared_keys: true,
            proof_of_death: true,
        };
        let client = Arc::new(Client::new(options.clone(), Arc::clone(&clock)));
        leases::open(&client).await.map_err(|error| match client.refusal() {
            Some(why) => Error::invalid("store", why),
            None => error,
        })?;
        let record_client = match options.replicas {
            0 => Arc::clone(&client),
            _ => Arc::new(Client::new(options, clock)),
        };
        let (wake_ups, follower) = (WakeUps::new(), EventFollower::new());
        let prefix_cache = Arc::new(PrefixCache::default());
        let (batcher, batch_task) = RequestBatcher::new(Arc::clone(&client), Arc::clone(&wake_ups));
        let mut tasks = JoinSet::new();
        tasks.spawn(batch_task);
        tasks.spawn(Arc::clone(&wake_ups).run(Arc::clone(&client)));
        tasks.spawn(Arc::clone(&follower).run(Arc::clone(&client)));
        tasks.spawn(sweep::run(Arc::clone(&client), Arc::clone(&prefix_cache)));
        Ok(Self {
            client,
            record_client,
            batcher,
            wake_ups,
            follower,
            quarantine: QuarantineWarning::new(),
            prefix_cache,
            capabilities,
            _tasks: tasks,
        })
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("capabilities", &self.capabilities).finish_non_exhaustive()
    }
}

#[async_trait]
impl Leases for Redis {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn warnings(&self) -> Vec<String> {
        self.client.warnings()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.client.clock)
    }

    async fn acquire(&self, claim: Claim) -> Result<Acquired> {
        self.capabilities.check(claim.ttl)?;
        // A claim that replaces a given reign does not queue: it would be granted a later one.
        let waits = claim.wait.filter(|wait| !wait.is_zero() && claim.instead_of.is_none());
        let result = match waits {
            Some(wait) => acquire_or_wait(&self.client, &self.batcher, &self.wake_ups, &claim, wait).await?,
            None => {
                let guard = ReleaseOnDrop::new(&self.batcher, &claim)?;
                let reply = self.batcher.claim(ClaimRequest::new(&claim)).await;
                let result = reply.map(|reply| acquired(&claim, reply, false));
                guard.disarm(matches!(result, Ok(Acquired::Granted(_))));
                result?
            }
        };
        self.quarantine.check(&self.client, &result);
        Ok(result)
    }

    async fn renew(&self, items: &[Renewal]) -> Result<Vec<Result<Renewed>>> {
        if items.len() > limits::BATCH {
            return Err(too_many("renewals in one call", limits::BATCH));
        }
        items.iter().filter_map(|item| item.ttl).try_for_each(|ttl| self.capabilities.check(ttl))?;
        Ok(leases::renew(&self.client, items).await)
    }

    async fn release(&self, release: Release) -> Result<Released> {
        self.batcher.release(release.into()).await
    }

    async fn transfer(&self, transfer: Transfer) -> Result<Transferred> {
        leases::transfer(&self.client, &transfer).await
    }

    async fn revoke(&self, revoke: Revoke) -> Result<Revoked> {
        if revoke.delay.is_some_and(|delay| delay > Duration::from_millis(limits::DELAY_MS)) {
            return Err(Error::invalid("delay", format!("at most {} ms are allowed", limits::DELAY_MS)));
        }
        leases::revoke(&self.client, &revoke).await
    }

    async fn verify(&self, key: &Key, token: &Token) -> Result<Verified> {
        leases::verify(&self.client, key, token).await
    }

    async fn inspect(&self, key: &Key) -> Result<Status> {
        let status = leases::inspect(&self.client, std::slice::from_ref(key)).await?.pop();
        status.ok_or_else(|| unexpected_reply("no status"))
    }

    async fn list(&self, query: &Query) -> Result<Page<Status>> {
        leases::list(&self.client, query).await
    }

    async fn history(&self, key: &Key) -> Result<Vec<Reign>> {
        leases::history(&self.client, key).await
    }

    async fn watch(&self, prefix: &Prefix, from: Option<Revision>) -> Result<Box<dyn Watch>> {
        Ok(Box::new(self.follower.open(&self.client, prefix, from).await?))
    }

    async fn watch_any(&self, prefixes: &[Prefix], from: Option<Revision>) -> Result<Box<dyn Watch>> {
        fallback::watch_any(self, prefixes, from).await
    }

    async fn wipe(&self, wipe: Wipe) -> Result<Wiped> {
        leases::wipe(&self.client, &wipe).await
    }
}

#[async_trait]
impl Records for Redis {
    async fn commit(&self, ops: &[Op]) -> Result<Committed> {
        records::commit(&self.record_client, None, ops).await
    }

    async fn write_fenced(&self, fence: &Fence, ops: &[Op]) -> Result<Committed> {
        records::commit(&self.record_client, Some(fence), ops).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        Ok(records::read(&self.client, std::slice::from_ref(key)).await?.pop().flatten())
    }

    async fn scan(&self, query: &Query) -> Result<Page<Record>> {
        records::scan(&self.client, query).await
    }

    async fn discover(&self, prefix: &Prefix) -> Result<Vec<Record>> {
        self.prefix_cache.discover(&self.client, prefix).await
    }

    async fn announce(&self, items: &[Announcement]) -> Result<Vec<bool>> {
        records::announce(&self.client, items).await
    }

    async fn read_log(&self, log: &Key, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        records::read_log(&self.client, log, after, limit).await
    }
}

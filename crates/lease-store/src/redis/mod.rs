//! Leases and records in a Redis server.
//!
//! Every verb is one script, atomic in the server and decided by the server's clock. Claims and releases of
//! concurrent callers share calls. A lease key is a plain string that other programs see, and its companions under
//! `tenure:` hold the rest. Redis Cluster is not supported: the companions carry no hash tag.

mod beat;
mod bell;
mod combine;
mod fault;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod hold;
mod job;
mod lane;
mod link;
mod look;
mod names;
mod options;
mod park;
mod plain;
mod push;
mod records;
mod reply;
mod script;
mod shelf;
mod sweep;
mod twins;
mod watch;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease::{
    Acquired, Announcement, Capabilities, Claim, Clock, Committed, Error, Fence, Key, Leases, LogEntry, Loss,
    Op, Page, Prefix, Query, Record, Records, Reign, Release, Released, Renewal, Renewed, Result, Revision,
    Revoke, Revoked, Status, Token, Transfer, Transferred, Ttl, Verified, Watch, Wipe, Wiped, limits,
};
use tokio::task::JoinSet;

use self::bell::Bell;
use self::combine::Desk;
use self::fault::{ENGINE, too_many};
use self::job::Claiming;
use self::options::{MIN_TTL_MS, Options};
use self::park::{Notice, Undo, granted, park};
use self::shelf::Shelves;
use self::watch::Tower;
use self::wire::Wire;
use crate::BootClock;

/// How late at most an expiry is noticed: one sweep, and what a busy server adds.
const EXPIRY_LAG: Duration = Duration::from_secs(2);

/// A store in a Redis server. Dropping it ends its tasks; what they hold in the server ends with its ttl.
pub struct Redis {
    wire: Arc<Wire>,
    /// The way of changes of records: one of their own where they wait for replicas, which holds up all behind them.
    records: Arc<Wire>,
    desk: Desk,
    bell: Arc<Bell>,
    tower: Arc<Tower>,
    notice: Notice,
    shelves: Arc<Shelves>,
    capabilities: Capabilities,
    _tasks: JoinSet<()>,
}

impl Redis {
    /// Opens `redis://HOST:PORT/DB?max_ttl_ms=30000&quarantine_ms=30000&op_timeout_ms=2000&wait_replicas=0` and waits
    /// until the server answers once.
    pub async fn open(url: &str) -> Result<Self> {
        Self::open_with(url, Arc::new(BootClock)).await
    }

    /// [`Redis::open`] with a clock of the caller's.
    pub async fn open_with(url: &str, clock: Arc<dyn Clock>) -> Result<Self> {
        let options = Options::parse(url)?;
        let capabilities = Capabilities {
            engine: ENGINE,
            min_ttl: Ttl::from_millis(MIN_TTL_MS)?,
            max_ttl: options.max_ttl,
            expiry_lag: EXPIRY_LAG,
            failover: Duration::ZERO,
            loss: Loss::ServerPersistence,
        };
        let mut tasks = JoinSet::new();
        let mut wire = || {
            let wire = Arc::new(Wire::new(options.clone(), Arc::clone(&clock)));
            tasks.spawn(Arc::clone(&wire).beat());
            wire
        };
        let (wire, apart) = (wire(), (options.replicas > 0).then(wire));
        look::arrive(&wire).await?;
        let records = apart.unwrap_or_else(|| Arc::clone(&wire));
        let (bell, tower) = (Bell::new(), Tower::new());
        let (desk, counter) = Desk::open(Arc::clone(&wire), Arc::clone(&bell));
        tasks.spawn(counter);
        tasks.spawn(Arc::clone(&bell).listen(Arc::clone(&wire)));
        tasks.spawn(Arc::clone(&tower).follow(Arc::clone(&wire)));
        let shelves = Arc::new(Shelves::default());
        tasks.spawn(sweep::sweep(Arc::clone(&wire), Arc::clone(&shelves)));
        Ok(Self {
            wire,
            records,
            desk,
            bell,
            tower,
            notice: Notice::new(),
            shelves,
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

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.wire.clock)
    }

    async fn acquire(&self, claim: Claim) -> Result<Acquired> {
        self.capabilities.check(claim.ttl)?;
        // Who comes instead of somebody does not wait for his turn: in line he would be granted a reign that begins.
        let waits = claim.wait.filter(|wait| !wait.is_zero() && claim.instead_of.is_none());
        let answer = match waits {
            Some(wait) => park(&self.wire, &self.desk, &self.bell, &claim, wait).await?,
            None => {
                let undo = Undo::new(&self.desk, &claim)?;
                let answer = self.desk.claim(Claiming::new(&claim)).await;
                let answer = answer.map(|claimed| granted(&claim, claimed, false));
                undo.forget(matches!(answer, Ok(Acquired::Granted(_))));
                answer?
            }
        };
        self.notice.look(&self.wire, &answer);
        Ok(answer)
    }

    async fn renew(&self, items: &[Renewal]) -> Result<Vec<Renewed>> {
        if items.len() > limits::BATCH {
            return Err(too_many("renewals in one call", limits::BATCH));
        }
        items.iter().filter_map(|item| item.ttl).try_for_each(|ttl| self.capabilities.check(ttl))?;
        hold::renew(&self.wire, items).await
    }

    async fn release(&self, release: Release) -> Result<Released> {
        self.desk.release(release.into()).await
    }

    async fn transfer(&self, transfer: Transfer) -> Result<Transferred> {
        hold::transfer(&self.wire, &transfer).await
    }

    async fn revoke(&self, revoke: Revoke) -> Result<Revoked> {
        if revoke.delay.is_some_and(|delay| delay > Duration::from_millis(limits::DELAY_MS)) {
            return Err(Error::invalid("delay", format!("at most {} ms are allowed", limits::DELAY_MS)));
        }
        hold::revoke(&self.wire, &revoke).await
    }

    async fn verify(&self, key: &Key, token: &Token) -> Result<Verified> {
        hold::verify(&self.wire, key, token).await
    }

    async fn inspect(&self, key: &Key) -> Result<Status> {
        let status = look::inspect(&self.wire, std::slice::from_ref(key)).await?.pop();
        status.ok_or_else(|| fault::strange("nothing"))
    }

    async fn list(&self, query: &Query) -> Result<Page<Status>> {
        look::list(&self.wire, query).await
    }

    async fn history(&self, key: &Key) -> Result<Vec<Reign>> {
        look::history(&self.wire, key).await
    }

    async fn watch(&self, prefix: &Prefix, from: Option<Revision>) -> Result<Box<dyn Watch>> {
        Ok(Box::new(self.tower.open(&self.wire, prefix, from).await?))
    }

    async fn wipe(&self, wipe: Wipe) -> Result<Wiped> {
        hold::wipe(&self.wire, &wipe).await
    }
}

#[async_trait]
impl Records for Redis {
    async fn commit(&self, ops: &[Op]) -> Result<Committed> {
        records::commit(&self.records, None, ops).await
    }

    async fn write_fenced(&self, fence: &Fence, ops: &[Op]) -> Result<Committed> {
        records::commit(&self.records, Some(fence), ops).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        Ok(records::read(&self.wire, std::slice::from_ref(key)).await?.pop().flatten())
    }

    async fn scan(&self, query: &Query) -> Result<Page<Record>> {
        records::scan(&self.wire, query).await
    }

    async fn discover(&self, prefix: &Prefix) -> Result<Vec<Record>> {
        self.shelves.discover(&self.wire, prefix).await
    }

    async fn announce(&self, items: &[Announcement]) -> Result<Vec<bool>> {
        plain::announce(&self.wire, items).await
    }

    async fn read_log(&self, log: &Key, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        records::read_log(&self.wire, log, after, limit).await
    }
}

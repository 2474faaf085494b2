//! The model as a store that keepers can run on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use lease::{
    Acquired, Capabilities, Claim, Clock, Committed, Error, Fence, Grant, Key, Leases, LogEntry, Loss, Op,
    Page, Phase, Prefix, Query, Reason, Record, Records, Reign, Release, Released, Renewal, Renewed, Result,
    Revision, Revoke, Revoked, Status, Token, Transfer, Transferred, Ttl, Verified, Watch, Wipe, Wiped,
    limits,
};

use super::cluster::{Caller, Cluster};
use super::data::{Data, Head};
use super::{Break, Profile};
use crate::disk::clock::Time;
use crate::disk::dice::Dice;

const ENGINE: &str = "redis model";
/// How often a parked claim asks again: the model rings no bells.
const AGAIN: Duration = Duration::from_millis(20);

/// The servers of one store; clones share them and their clock.
#[derive(Clone)]
pub(crate) struct Servers {
    cluster: Arc<Mutex<Cluster>>,
    time: Time,
    clock: Arc<dyn Clock>,
    profile: Profile,
}

impl Servers {
    /// Starts the servers of a profile. Nothing is granted for `quarantine`, which is also the longest TTL, after
    /// a server was replaced.
    pub(crate) fn start(
        profile: Profile,
        quarantine: Duration,
        how: Option<Break>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let time = Time::default();
        let replicas = if profile == Profile::Single { 0 } else { 2 };
        let cluster = Cluster::new(&time, replicas, (quarantine, profile == Profile::Strict), how);
        Self { cluster: Arc::new(Mutex::new(cluster)), time, clock, profile }
    }

    /// A caller's connection over a network that is slow and loses what it likes, with the caller's own clock.
    pub(crate) fn connect(&self, node: usize, clock: Arc<dyn Clock>, road: Dice) -> Connection {
        let caller = Mutex::new(Caller { node, ..Caller::default() });
        Connection { servers: self.clone(), caller, clock, road: Mutex::new(road) }
    }

    /// Does something to the servers, now.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Cluster) -> T) -> T {
        let mut cluster = self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        self.time.come_to(self.clock.now().as_nanos());
        act(&mut cluster)
    }
}

/// One caller's way to the servers.
pub(crate) struct Connection {
    servers: Servers,
    caller: Mutex<Caller>,
    clock: Arc<dyn Clock>,
    road: Mutex<Dice>,
}

/// What the network does to one request, in nanoseconds.
struct Trip {
    there: u64,
    back: u64,
    /// It never arrives.
    lost: bool,
    /// Its answer never arrives.
    unheard: bool,
}

impl Connection {
    /// Talks to another server from now on.
    pub(crate) fn turn_to(&self, node: usize) {
        self.caller.lock().unwrap_or_else(PoisonError::into_inner).node = node;
    }

    fn trip(&self) -> Trip {
        let mut road = self.road.lock().unwrap_or_else(PoisonError::into_inner);
        let mut way = || match road.one_in(40) {
            true => road.within(100_000_000, 2_000_000_000),
            false => road.within(100_000, 4_000_000),
        };
        let (there, back) = (way(), way());
        Trip { there, back, lost: road.one_in(30), unheard: road.one_in(30) }
    }

    /// One request and its answer.
    async fn ask<T>(&self, step: impl FnOnce(&mut Data, &Head) -> T + Send) -> Result<T> {
        let trip = self.trip();
        self.clock.sleep_until(self.clock.now() + Duration::from_nanos(trip.there)).await;
        let answer = match trip.lost {
            true => Err(Error::unknown(ENGINE, "the connection was reset")),
            false => self.call(step),
        };
        self.clock.sleep_until(self.clock.now() + Duration::from_nanos(trip.back)).await;
        if trip.unheard { Err(Error::unknown(ENGINE, "the connection was reset")) } else { answer }
    }

    fn call<T>(&self, step: impl FnOnce(&mut Data, &Head) -> T) -> Result<T> {
        let mut caller = self.caller.lock().unwrap_or_else(PoisonError::into_inner);
        self.servers.with(|cluster| {
            if !cluster.is_master(caller.node) {
                return Err(Error::unavailable(ENGINE, "READONLY: this server is a replica"));
            }
            match cluster.call(&mut caller, step) {
                (answer, true) => Ok(answer),
                (_, false) => Err(Error::unknown(ENGINE, "not all replicas have it")),
            }
        })
    }
}

#[async_trait]
impl Leases for Connection {
    fn capabilities(&self) -> Capabilities {
        let (min, failover) = match self.servers.profile {
            Profile::Single => (500, 0),
            Profile::Sentinel => (500, 6_500),
            Profile::Strict => (10_000, 6_500),
        };
        Capabilities {
            engine: ENGINE,
            min_ttl: Ttl::from_millis(min).unwrap_or(Ttl::MAX),
            max_ttl: Ttl::from_millis(30_000).unwrap_or(Ttl::MAX),
            expiry_lag: Duration::from_secs(2),
            failover: Duration::from_millis(failover),
            loss: Loss::ServerPersistence,
        }
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    async fn acquire(&self, claim: Claim) -> Result<Acquired> {
        self.capabilities().check(claim.ttl)?;
        let deadline = self.clock.now() + claim.wait.unwrap_or_default();
        let mut parked = false;
        loop {
            let answer = self.ask(|data, head| data.acquire(&claim, head)).await??;
            match answer {
                Acquired::Granted(grant) => return Ok(Acquired::Granted(Grant { parked, ..grant })),
                Acquired::Busy(busy) => {
                    let passes = !matches!(busy.reason, Reason::Foreign | Reason::NotThatGeneration);
                    if self.clock.now() >= deadline || !passes {
                        return Ok(Acquired::Busy(busy));
                    }
                }
            }
            parked = true;
            self.clock.sleep_until(deadline.min(self.clock.now() + AGAIN)).await;
        }
    }

    async fn renew(&self, items: &[Renewal]) -> Result<Vec<Renewed>> {
        self.ask(|data, head| items.iter().map(|item| data.renew(item, head)).collect()).await
    }

    async fn release(&self, release: Release) -> Result<Released> {
        self.ask(|data, head| data.release(&release, head)).await
    }

    async fn transfer(&self, transfer: Transfer) -> Result<Transferred> {
        self.ask(|data, head| data.transfer(&transfer, head)).await
    }

    async fn revoke(&self, revoke: Revoke) -> Result<Revoked> {
        self.ask(|data, head| data.revoke(&revoke, head)).await
    }

    async fn verify(&self, key: &Key, token: &Token) -> Result<Verified> {
        self.ask(|data, head| data.verify(key, token.digest(), head.now)).await
    }

    async fn inspect(&self, key: &Key) -> Result<Status> {
        self.ask(|data, head| data.cells.get(key).cloned().unwrap_or_default().status(key, head.now)).await
    }

    async fn list(&self, query: &Query) -> Result<Page<Status>> {
        query.check()?;
        self.ask(|data, head| {
            let keys = data.cells.iter().filter(|(key, _)| key.starts_with(&query.prefix));
            let after = keys.filter(|(key, _)| query.after.as_ref().is_none_or(|after| *key > after));
            let mut items: Vec<Status> = after
                .map(|(key, cell)| cell.status(key, head.now))
                .filter(|status| status.phase != Phase::Free)
                .take(query.limit + 1)
                .collect();
            let more = items.len() > query.limit;
            items.truncate(query.limit);
            let next = more.then(|| items.last().map(|status| status.key.clone())).flatten();
            Page { items, next, revision: Revision::new(data.revision) }
        })
        .await
    }

    async fn history(&self, key: &Key) -> Result<Vec<Reign>> {
        self.ask(|data, _| {
            let past = data.cells.get(key).map(|cell| cell.past.clone()).unwrap_or_default();
            past.into_iter().map(|(_, reign)| reign).collect()
        })
        .await
    }

    async fn watch(&self, _: &Prefix, _: Option<Revision>) -> Result<Box<dyn Watch>> {
        Err(Error::unavailable(ENGINE, "the model keeps no events"))
    }

    async fn wipe(&self, wipe: Wipe) -> Result<Wiped> {
        self.ask(|data, head| data.wipe(&wipe, head)).await
    }
}

#[async_trait]
impl Records for Connection {
    async fn commit(&self, ops: &[Op]) -> Result<Committed> {
        self.ask(|data, head| data.commit(ops, None, head)).await?
    }

    async fn write_fenced(&self, fence: &Fence, ops: &[Op]) -> Result<Committed> {
        self.ask(|data, head| data.commit(ops, Some(fence), head)).await?
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.ask(|data, head| data.get(key, head.now)).await
    }

    async fn scan(&self, query: &Query) -> Result<Page<Record>> {
        query.check()?;
        self.ask(|data, head| {
            let keys = data.records.keys().filter(|key| key.starts_with(&query.prefix));
            let after = keys.filter(|key| query.after.as_ref().is_none_or(|after| *key > after));
            let found = after.filter_map(|key| data.get(key, head.now));
            let mut items: Vec<Record> = found.take(query.limit + 1).collect();
            let more = items.len() > query.limit;
            items.truncate(query.limit);
            let next = more.then(|| items.last().map(|record| record.key.clone())).flatten();
            Page { items, next, revision: Revision::new(data.revision) }
        })
        .await
    }

    async fn read_log(&self, log: &Key, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        let limit = limit.min(limits::BATCH);
        self.ask(|data, _| {
            let entries = data.logs.get(log).map(Vec::as_slice).unwrap_or_default();
            let numbered = entries.iter().enumerate().map(|(n, value)| (n as u64 + 1, value));
            let wanted = numbered.filter(|(seq, _)| *seq > after).take(limit);
            wanted.map(|(seq, value)| LogEntry { seq, value: value.clone() }).collect()
        })
        .await
    }
}

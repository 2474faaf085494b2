//! The simulated servers as a store on which keepers run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tenure_lease::{
    Acquired, Announcement, BusyReason, Capabilities, Claim, Clock, Committed, Durability, Error, Fence,
    Generation, Grant, Key, Lease, Leases, LogEntry, Op, Page, Prefix, Query, Record, Records, Reign,
    Release, Released, Renewal, Renewed, Result, Revision, Revoke, Revoked, Status, Tick, Token, Transfer,
    Transferred, Ttl, Verified, Watch, Wipe, Wiped, fallback, limits,
};
use tenure_store::redis_protocol::WaiterId;
use tenure_store::redis_protocol::acquire::Queue;
use tenure_store::redis_protocol::release::{ReleaseRequest, ReleaseScope, decode_wake_up};

use super::client::{Client, ENGINE, hex};
use super::cluster::Cluster;
use super::{Break, Profile};
use crate::disk::clock::Time;
use crate::disk::seeded_rng::SeededRng;

/// How often a waiting claim looks for a message, and how often it asks again.
const POLL: Duration = Duration::from_millis(5);
const RECHECK: Duration = Duration::from_millis(500);
/// How much longer a claim waits in the server than in its process.
const GRACE_MS: u64 = 1_000;

/// The servers of one store; clones share them and their clock.
#[derive(Clone)]
pub(crate) struct Servers {
    cluster: Arc<Mutex<Cluster>>,
    time: Time,
    clock: Arc<dyn Clock>,
    profile: Profile,
    waiters: Arc<AtomicU64>,
    /// Waiting claims that were granted, until their processes notice.
    wake_ups: Arc<Mutex<Vec<(WaiterId, Generation)>>>,
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
        Self {
            cluster: Arc::new(Mutex::new(cluster)),
            time,
            clock,
            profile,
            waiters: Arc::default(),
            wake_ups: Arc::default(),
        }
    }

    /// A client's connection over a network that delays and loses messages, with the client's own clock.
    pub(crate) fn connect(&self, number: u64, clock: Arc<dyn Clock>, network: SeededRng) -> Connection {
        let client = Mutex::new(Client::new(0, number));
        Connection { servers: self.clone(), client, clock, network: Mutex::new(network) }
    }

    /// Does something to the servers, now.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Cluster) -> T) -> T {
        let mut cluster = self.cluster.lock();
        self.time.come_to(self.clock.now().as_nanos());
        let done = act(&mut cluster);
        let messages = cluster.take_published();
        let reached = messages.iter().filter(|message| !message.subscribers.is_empty());
        self.wake_ups.lock().extend(reached.filter_map(|message| decode_wake_up(&message.message)));
        done
    }

    /// What went wrong in a script, if anything did.
    pub(crate) fn defect(&self) -> Option<String> {
        self.cluster.lock().defect.clone()
    }
}

/// One client's connection to the servers.
pub(crate) struct Connection {
    servers: Servers,
    client: Mutex<Client>,
    clock: Arc<dyn Clock>,
    network: Mutex<SeededRng>,
}

/// What the network does to one request and its reply.
struct RoundTrip {
    there: Duration,
    back: Duration,
    request_lost: bool,
    reply_lost: bool,
}

impl Connection {
    /// Talks to another server from now on.
    pub(crate) fn turn_to(&self, node: usize) {
        self.client.lock().node = node;
    }

    /// Brings keys up to date, as the engine does every second.
    pub(crate) async fn sweep(&self) {
        drop(self.request(|client, cluster, now| client.sweep(cluster, now)).await);
    }

    fn round_trip(&self) -> RoundTrip {
        let mut network = self.network.lock();
        let mut way = || {
            let nanos = match network.one_in(40) {
                true => network.within(100_000_000, 2_000_000_000),
                false => network.within(100_000, 4_000_000),
            };
            Duration::from_nanos(nanos)
        };
        let (there, back) = (way(), way());
        RoundTrip { there, back, request_lost: network.one_in(30), reply_lost: network.one_in(30) }
    }

    async fn sleep(&self, span: Duration) {
        self.clock.sleep_until(self.clock.now() + span).await;
    }

    /// One request and its reply.
    async fn request<T>(
        &self,
        step: impl FnOnce(&mut Client, &mut Cluster, Tick) -> Result<T> + Send,
    ) -> Result<T> {
        let trip = self.round_trip();
        self.sleep(trip.there).await;
        let reply = match trip.request_lost {
            true => Err(Error::unknown(ENGINE, "the connection was reset")),
            false => {
                let mut client = self.client.lock();
                self.servers.with(|cluster| step(&mut client, cluster, self.clock.now()))
            }
        };
        self.sleep(trip.back).await;
        if trip.reply_lost { Err(Error::unknown(ENGINE, "the connection was reset")) } else { reply }
    }

    async fn claim(&self, claim: &Claim, queue: Queue) -> Result<Acquired> {
        self.request(|client, cluster, now| client.acquire(cluster, now, claim, queue)).await
    }

    /// Waits in the queue until the claim is granted or its time is over.
    async fn wait(&self, claim: &Claim, give_up: Tick) -> Result<Acquired> {
        let waiter = hex(self.servers.waiters.fetch_add(1, Ordering::Relaxed));
        let instance = self.client.lock().instance;
        let joining = || {
            let left = give_up.since(self.clock.now()).as_millis() as u64;
            Queue::Join { waiter, instance, wait_ms: left + GRACE_MS }
        };
        let mut parked = false;
        loop {
            let last = self.clock.now() >= give_up;
            let reply = self.claim(claim, if last { Queue::Leave { waiter } } else { joining() }).await;
            match reply {
                Ok(Acquired::Busy(busy)) if !last && busy.reason != BusyReason::NotThatGeneration => {}
                Ok(Acquired::Granted(grant)) => return Ok(Acquired::Granted(Grant { parked, ..grant })),
                Ok(busy) => return Ok(busy),
                Err(Error::Unavailable { .. } | Error::Unknown { .. }) if !last => {}
                Err(error) => {
                    self.leave_queue(claim, waiter).await;
                    return Err(error);
                }
            }
            parked = true;
            if let Some(generation) = self.wake_up(waiter, give_up).await {
                let (key, holder, ttl) = (claim.key.clone(), claim.holder.clone(), claim.ttl);
                let lease = Lease { key, holder, generation, ttl };
                return Ok(Acquired::Granted(Grant { lease, parked }));
            }
        }
    }

    /// Waits for a message until it is time to ask again.
    async fn wake_up(&self, waiter: WaiterId, give_up: Tick) -> Option<Generation> {
        let recheck = give_up.min(self.clock.now() + RECHECK);
        loop {
            let granted = {
                let mut messages = self.servers.wake_ups.lock();
                let at = messages.iter().position(|(id, _)| *id == waiter);
                at.map(|at| messages.swap_remove(at).1)
            };
            if granted.is_some() || self.clock.now() >= recheck {
                return granted;
            }
            self.sleep(POLL).await;
        }
    }

    /// Gives up a claim whose outcome is not known.
    async fn leave_queue(&self, claim: &Claim, waiter: WaiterId) {
        let request = ReleaseRequest {
            key: claim.key.clone(),
            token: *claim.token.digest(),
            generation: None,
            successor: None,
            scope: ReleaseScope::Lease,
            waiter: Some(waiter),
        };
        drop(self.request(|client, cluster, now| client.release(cluster, now, &request, false)).await);
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
            min_ttl: Ttl::from_millis(min).unwrap_or(Ttl::MAX),
            max_ttl: Ttl::from_millis(30_000).unwrap_or(Ttl::MAX),
            expiry_lag: Duration::from_secs(2),
            failover: Duration::from_millis(failover),
            dies_with_process: false,
            durability: Durability::ServerPersistence,
            proof_of_death: true,
            ..Capabilities::in_process(ENGINE)
        }
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    async fn acquire(&self, claim: Claim) -> Result<Acquired> {
        self.capabilities().check(claim.ttl)?;
        match claim.wait.filter(|wait| !wait.is_zero() && claim.instead_of.is_none()) {
            Some(wait) => self.wait(&claim, self.clock.now() + wait).await,
            None => self.claim(&claim, Queue::Skip).await,
        }
    }

    async fn renew(&self, items: &[Renewal]) -> Result<Vec<Result<Renewed>>> {
        let renewed = self.request(|client, cluster, now| client.renew(cluster, now, items)).await?;
        Ok(renewed.into_iter().map(Ok).collect())
    }

    async fn release(&self, release: Release) -> Result<Released> {
        let request = ReleaseRequest::from(release);
        let reply =
            self.request(|client, cluster, now| client.release(cluster, now, &request, false)).await?;
        // The reply tells of a grant to a claim that waits in this process.
        self.servers.wake_ups.lock().extend(reply.granted);
        Ok(reply.released)
    }

    async fn transfer(&self, transfer: Transfer) -> Result<Transferred> {
        self.request(|client, cluster, now| client.transfer(cluster, now, &transfer)).await
    }

    async fn revoke(&self, revoke: Revoke) -> Result<Revoked> {
        self.request(|client, cluster, now| client.revoke(cluster, now, &revoke)).await
    }

    async fn verify(&self, key: &Key, token: &Token) -> Result<Verified> {
        self.request(|client, cluster, now| client.verify(cluster, now, key, token)).await
    }

    async fn inspect(&self, key: &Key) -> Result<Status> {
        self.request(|client, cluster, now| client.inspect(cluster, now, key)).await
    }

    async fn list(&self, _: &Query) -> Result<Page<Status>> {
        Err(not_simulated("list"))
    }

    async fn history(&self, key: &Key) -> Result<Vec<Reign>> {
        self.request(|client, cluster, now| client.history(cluster, now, key)).await
    }

    async fn watch(&self, _: &Prefix, _: Option<Revision>) -> Result<Box<dyn Watch>> {
        Err(not_simulated("watch"))
    }

    async fn watch_any(&self, prefixes: &[Prefix], from: Option<Revision>) -> Result<Box<dyn Watch>> {
        fallback::watch_any(self, prefixes, from).await
    }

    async fn wipe(&self, wipe: Wipe) -> Result<Wiped> {
        self.request(|client, cluster, now| client.wipe(cluster, now, &wipe)).await
    }
}

#[async_trait]
impl Records for Connection {
    async fn commit(&self, ops: &[Op]) -> Result<Committed> {
        self.request(|client, cluster, now| client.commit(cluster, now, None, ops)).await
    }

    async fn write_fenced(&self, fence: &Fence, ops: &[Op]) -> Result<Committed> {
        self.request(|client, cluster, now| client.commit(cluster, now, Some(fence), ops)).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.request(|client, cluster, now| client.get(cluster, now, key)).await
    }

    async fn scan(&self, _: &Query) -> Result<Page<Record>> {
        Err(not_simulated("scan"))
    }

    async fn discover(&self, prefix: &Prefix) -> Result<Vec<Record>> {
        fallback::discover(self, prefix).await
    }

    async fn announce(&self, items: &[Announcement]) -> Result<Vec<bool>> {
        fallback::announce(self, items).await
    }

    async fn read_log(&self, log: &Key, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        let limit = limit.min(limits::BATCH);
        self.request(|client, cluster, now| client.read_log(cluster, now, log, (after, limit))).await
    }
}

fn not_simulated(verb: &str) -> Error {
    Error::unavailable(ENGINE, format!("{verb} is not simulated"))
}

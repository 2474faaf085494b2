//! The quarantine of a Redis server that was restarted, replaced or emptied.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{
    BusyReason, Claim, Error, Grant, Holder, Leases, Phase, Prefix, Proof, Released, Revoke, RevokeReason,
    Transfer, Transferred, Ttl, Wipe, Wiped,
};
use tenure_store::Redis;
use tenure_testkit::{AppendFsync, RedisServer, wait};
use tokio::task::JoinSet;

use crate::redis_fixture::{BentClock, LIMIT, busy, claim, granted, int, key, open, release, renewal, text};
use crate::renewals;

/// A server that was restarted while a key was held, and an engine that was opened afterwards.
struct Restarted {
    server: RedisServer,
    store: Arc<Redis>,
    mine: Claim,
    grant: Grant,
}

impl Restarted {
    async fn new() -> Self {
        let server = RedisServer::builder().appendonly(AppendFsync::Always).start().unwrap();
        let mine = claim("k", "node-1");
        let grant = granted(&open(&server.url()).await, &mine).await;
        server.restart().unwrap();
        // Waiting claims check again soon.
        let clock = Arc::new(BentClock(Some(Duration::from_millis(50))));
        let store = Arc::new(Redis::open_with(&server.url(), clock).await.unwrap());
        Self { server, store, mine, grant }
    }

    /// A claim in the queue of the key.
    async fn parked(&self, holder: &'static str) -> JoinSet<Grant> {
        let (store, mut parked) = (self.store.clone(), JoinSet::new());
        parked.spawn(async move { granted(&store, &claim("k", holder).waiting(LIMIT)).await });
        let waits = async || int(&self.server, &["LLEN", "tenure:w:k"]) == 1;
        wait::until_async("it waits", LIMIT, waits).await.unwrap();
        parked
    }

    /// Fails if the key was handed on. Then ends the quarantine, after which it must be.
    async fn assert_handed_on_after_the_quarantine(&self, mut parked: JoinSet<Grant>) {
        assert_eq!(self.store.inspect(&self.mine.key).await.unwrap().phase, Phase::Free);
        assert_eq!(busy(&self.store, &claim("k", "node-3")).await.reason, BusyReason::Quarantine);
        assert_eq!(int(&self.server, &["LLEN", "tenure:w:k"]), 1, "it still waits");
        end_quarantine(&self.server);
        let grant = parked.join_next().await.unwrap().unwrap();
        assert!(grant.lease.generation > self.grant.lease.generation);
    }

    async fn renew(&self) {
        renewals(self.store.renew(&[renewal(&self.mine, &self.grant)]).await);
    }

    fn transfer(&self) -> Transfer {
        let (key, token) = (self.mine.key.clone(), self.mine.token.clone());
        let to = Holder::new("node-2").unwrap();
        Transfer { key, token, generation: self.grant.lease.generation, to }
    }
}

/// As if the server had been started long ago.
fn end_quarantine(server: &RedisServer) {
    let end = ["HSET", "tenure:store", "quarantine_end", "1", "started", "1"];
    assert_eq!(int(server, &end), 0, "both fields are there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_during_a_quarantine_hands_nothing_on() {
    let world = Restarted::new().await;
    let parked = world.parked("node-2").await;
    // Renewed or not: another holder may have had the key after what the server remembers.
    world.renew().await;
    assert_eq!(world.store.release(release(&world.mine)).await.unwrap(), Released::Released);
    world.assert_handed_on_after_the_quarantine(parked).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_during_a_quarantine_hands_nothing_on() {
    let world = Restarted::new().await;
    let parked = world.parked("node-2").await;
    let (key, generation) = (world.mine.key.clone(), world.grant.lease.generation);
    let reason = RevokeReason::default();
    world.store.revoke(Revoke { key, generation, delay: Some(Duration::ZERO), reason }).await.unwrap();
    world.assert_handed_on_after_the_quarantine(parked).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wipe_during_a_quarantine_hands_nothing_on() {
    let server = RedisServer::builder().appendonly(AppendFsync::Always).start().unwrap();
    let (gate, before) = (claim("gate", "operator"), open(&server.url()).await);
    let generation = granted(&before, &gate).await.lease.generation;
    let mine = claim("k", "node-1");
    let grant = granted(&before, &mine).await;
    server.restart().unwrap();
    let clock = Arc::new(BentClock(Some(Duration::from_millis(50))));
    let store = Arc::new(Redis::open_with(&server.url(), clock).await.unwrap());
    let world = Restarted { server, store, mine, grant };
    let parked = world.parked("node-2").await;
    let gate = Proof { key: gate.key, token: gate.token, generation };
    let wiped = world.store.wipe(Wipe { prefix: Prefix::new("k").unwrap(), gate }).await.unwrap();
    assert_eq!(wiped, Wiped::Wiped { count: 1 });
    world.assert_handed_on_after_the_quarantine(parked).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expiry_during_a_quarantine_hands_nothing_on() {
    let world = Restarted::new().await;
    let parked = world.parked("node-2").await;
    // As if its time were over; the sweep ends the reign.
    world.server.command(&["HSET", "tenure:l:k", "expires", "1"]).unwrap();
    world.server.command(&["PEXPIRE", "k", "1"]).unwrap();
    world.server.command(&["ZADD", "tenure:index", "1", "k"]).unwrap();
    let ended = async || int(&world.server, &["LLEN", "tenure:h:k"]) == 1;
    wait::until_async("the reign has ended", LIMIT, ended).await.unwrap();
    world.assert_handed_on_after_the_quarantine(parked).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reign_is_transferred_during_a_quarantine_only_after_a_renewal() {
    let world = Restarted::new().await;
    let mut parked = world.parked("node-2").await;
    let refused = world.store.transfer(world.transfer()).await.unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
    assert_eq!(text(&world.server, &["GET", "k"]).as_deref(), Some("node-1"));
    world.renew().await;
    let transferred = world.store.transfer(world.transfer()).await.unwrap();
    assert!(matches!(transferred, Transferred::Transferred(_)), "{transferred:?}");
    assert_eq!(parked.join_next().await.unwrap().unwrap().lease.holder.as_str(), "node-2");
}

#[tokio::test]
async fn a_reign_is_replaced_during_a_quarantine_only_after_a_renewal() {
    let world = Restarted::new().await;
    let replacement = Claim { instead_of: Some(world.grant.lease.generation), ..claim("k", "node-2") };
    let answer = busy(&world.store, &replacement).await;
    assert_eq!(answer.reason, BusyReason::Quarantine);
    world.renew().await;
    granted(&world.store, &replacement).await;
}

#[tokio::test]
async fn a_reservation_is_not_granted_during_a_quarantine() {
    let world = Restarted::new().await;
    let to = Some(Holder::new("node-2").unwrap());
    world.store.release(tenure_lease::Release { to, ..release(&world.mine) }).await.unwrap();
    assert_eq!(busy(&world.store, &claim("k", "node-2")).await.reason, BusyReason::Quarantine);
}

fn quarantine(server: &RedisServer) -> i64 {
    let end: i64 = text(server, &["HGET", "tenure:store", "quarantine_end"]).unwrap().parse().unwrap();
    let now = text(server, &["EVAL", "return redis.call('TIME')[1]", "0"]).unwrap();
    end - 1_000 * now.parse::<i64>().unwrap()
}

#[tokio::test]
async fn the_first_client_after_a_restart_does_not_decide_how_long_the_others_wait() {
    for first in ["quarantine_ms=0", "max_ttl_ms=1000"] {
        // One for each: an earlier quarantine goes on over a restart.
        let server = RedisServer::builder().appendonly(AppendFsync::Always).start().unwrap();
        drop(open(&server.url()).await);
        server.restart().unwrap();
        let brief = Redis::open(&format!("{}?{first}", server.url())).await.unwrap();
        let store = Redis::open(&server.url()).await.unwrap();
        let answer = busy(&store, &claim("k", "node-1")).await;
        assert_eq!(answer.reason, BusyReason::Quarantine, "after {first}");
        assert!(answer.remaining > Some(Duration::from_secs(20)), "after {first}: {answer:?}");
        // Nor is a key granted that others must wait for.
        let mut short = claim("k", "node-2");
        short.ttl = Ttl::from_millis(1_000).unwrap();
        assert_eq!(busy(&brief, &short).await.reason, BusyReason::Quarantine, "after {first}");
        assert!(quarantine(&server) > 20_000, "after {first}");
    }
}

#[tokio::test]
async fn a_quarantine_lasts_as_long_as_the_longest_ttl_that_was_granted() {
    let server = RedisServer::builder().appendonly(AppendFsync::Always).start().unwrap();
    let long = Redis::open(&format!("{}?quarantine_ms=0&max_ttl_ms=120000", server.url())).await.unwrap();
    let mut mine = claim("k", "node-1");
    mine.ttl = Ttl::from_secs(120).unwrap();
    granted(&long, &mine).await;
    drop(long);
    server.restart().unwrap();
    let store = Redis::open(&server.url()).await.unwrap();
    let answer = busy(&store, &claim("free", "node-2")).await;
    assert!(answer.remaining > Some(Duration::from_secs(60)), "{answer:?}");
}

#[tokio::test]
async fn a_server_that_was_emptied_while_it_runs_is_in_quarantine_and_its_generations_rise() {
    let server = RedisServer::builder().own_clock().start().unwrap();
    // It has been up for longer than any lease.
    server.step_clock(100).unwrap();
    let store = Redis::open(&server.url()).await.unwrap();
    end_quarantine(&server);
    let before = granted(&store, &claim("k", "node-1")).await;
    server.flushall().unwrap();
    let answer = busy(&store, &claim("k", "node-2")).await;
    assert_eq!(answer.reason, BusyReason::Quarantine, "{answer:?}");
    assert!(answer.remaining > Some(Duration::from_secs(20)), "{answer:?}");
    let fresh = Redis::open(&server.url()).await.unwrap();
    assert_eq!(busy(&fresh, &claim("k", "node-3")).await.reason, BusyReason::Quarantine);
    end_quarantine(&server);
    let after = granted(&store, &claim("k", "node-2")).await;
    assert!(after.lease.generation > before.lease.generation);
}

#[tokio::test]
async fn a_promoted_replica_is_in_quarantine_for_clients_that_knew_no_other_server() {
    let primary = RedisServer::start().unwrap();
    granted(&open(&primary.url()).await, &claim("other", "node-1")).await;
    let replica = RedisServer::builder().own_clock().replica_of(&primary).start().unwrap();
    replica.wait_for_sync(LIMIT).unwrap();
    // It has been up for longer than any lease, as a replica.
    replica.step_clock(100).unwrap();
    replica.promote().unwrap();
    let fresh = Redis::open(&replica.url()).await.unwrap();
    assert_eq!(busy(&fresh, &claim("k", "node-2")).await.reason, BusyReason::Quarantine);
    assert_eq!(fresh.inspect(&key("k")).await.unwrap().phase, Phase::Free);
}

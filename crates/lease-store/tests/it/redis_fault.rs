//! The Redis engine against servers that restart, forget, stall and split, and connections that break.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{
    Acquired, BusyReason, Claim, Clock, Committed, End, Error, Key, Leases, Op, Records, Released, Renewed,
};
use tenure_store::{BootClock, Redis};
use tenure_testkit::{Direction, Mode, Proxy, RedisServer, wait};
use tokio::task::JoinSet;

use crate::redis_fixture::{BentClock, LIMIT, busy, claim, granted, open, release, renewal, text};
use crate::renewals;

#[tokio::test]
async fn after_a_restart_without_data_free_keys_wait_and_generations_rise() {
    let server = RedisServer::start().unwrap();
    let url = format!("{}?max_ttl_ms=2000", server.url());
    let brief = |name: &str, holder: &str| {
        let mut claim = claim(name, holder);
        claim.ttl = tenure_lease::Ttl::from_millis(2_000).unwrap();
        claim
    };
    let store = Redis::open(&url).await.unwrap();
    let first = match store.acquire(brief("k", "node-1").waiting(LIMIT)).await.unwrap() {
        Acquired::Granted(grant) => grant,
        Acquired::Busy(busy) => panic!("{busy:?}"),
    };
    server.restart_empty().unwrap();
    let answer = busy(&store, &brief("k", "node-2")).await;
    assert_eq!(answer.reason, BusyReason::Quarantine);
    assert!(answer.remaining.is_some_and(|left| left <= Duration::from_secs(2)), "{answer:?}");
    let fresh = Redis::open(&url).await.unwrap();
    assert_eq!(busy(&fresh, &brief("k", "node-3")).await.reason, BusyReason::Quarantine);
    match store.acquire(brief("k", "node-2").waiting(LIMIT)).await.unwrap() {
        Acquired::Granted(grant) => assert!(grant.lease.generation > first.lease.generation),
        Acquired::Busy(busy) => panic!("{busy:?}"),
    }
}

#[tokio::test]
async fn a_server_without_persistence_that_forgot_all_loses_leases_as_gone() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let mine = claim("k", "node-1");
    let grant = granted(&store, &mine).await;
    server.flushall().unwrap();
    assert_eq!(renewals(store.renew(&[renewal(&mine, &grant)]).await), [Renewed::Lost(End::Gone)]);
    let next = granted(&store, &claim("k", "node-2")).await;
    assert!(next.lease.generation > grant.lease.generation);
}

#[tokio::test]
async fn a_stale_replica_that_was_promoted_repeats_no_generation() {
    let primary = RedisServer::start().unwrap();
    let link = Proxy::start(primary.addr()).unwrap();
    let replica = RedisServer::builder().replica_of_addr(link.addr()).start().unwrap();
    let old = open(&primary.url()).await;
    granted(&old, &claim("k", "before")).await;
    replica.wait_for_sync(LIMIT).unwrap();
    link.refuse().unwrap();
    link.cut().unwrap();
    let mut seen = Vec::new();
    for n in 0..5 {
        let claim = claim(&format!("t/{n}"), "old");
        seen.push((claim.key.clone(), granted(&old, &claim).await.lease.generation));
        old.release(release(&claim)).await.unwrap();
        seen.push((
            claim.key.clone(),
            granted(&old, &self::claim(claim.key.as_str(), "old")).await.lease.generation,
        ));
    }
    replica.promote().unwrap();
    let new = open(&replica.url()).await;
    let mut reigns = Vec::new();
    for n in 0..5 {
        let claim = claim(&format!("t/{n}"), "new");
        let grant = granted(&new, &claim).await;
        assert!(
            seen.iter().all(|(key, g)| *key != claim.key || *g < grant.lease.generation),
            "{grant:?} {seen:?}"
        );
        reigns.push((claim, grant.lease.generation));
    }
    // Both go on granting, the old one to clients that do not know of the new one.
    for round in 0..20 {
        for (claim, generation) in &mut reigns {
            let next = |holder: &str| self::claim(claim.key.as_str(), holder);
            old.revoke(revoke(&old, &claim.key).await).await.unwrap();
            let theirs = granted(&old, &next("old")).await.lease.generation;
            seen.push((claim.key.clone(), theirs));
            new.release(release(claim)).await.unwrap();
            *claim = next("new");
            let ours = granted(&new, claim).await.lease.generation;
            assert!(ours > *generation, "{ours} after {generation}");
            *generation = ours;
            let twice = seen.iter().find(|(key, g)| *key == claim.key && *g == ours);
            assert_eq!(twice, None, "round {round}");
        }
    }
}

/// Ends whatever reign there is, at once.
async fn revoke(store: &Redis, key: &Key) -> tenure_lease::Revoke {
    let generation = store.inspect(key).await.unwrap().generation.unwrap();
    tenure_lease::Revoke {
        key: key.clone(),
        generation,
        delay: Some(Duration::ZERO),
        reason: tenure_lease::RevokeReason::default(),
    }
}

/// How often the server has refused to run a script or failed in one.
fn refusals(server: &RedisServer) -> u64 {
    let stats = text(server, &["INFO", "commandstats"]).unwrap_or_default();
    let line = stats.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap_or_default();
    let number = |name: &str| {
        let field = line.split([':', ',']).find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
        field.and_then(|digits| digits.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    number("rejected_calls") + number("failed_calls")
}

#[tokio::test]
async fn a_server_that_became_a_replica_is_retried_until_it_accepts_writes() {
    let (server, other) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    let url = format!("{}?quarantine_ms=0&op_timeout_ms=20000", server.url());
    let store = Arc::new(Redis::open(&url).await.unwrap());
    granted(&store, &claim("before", "node-1")).await;
    server.follow(&other).unwrap();
    server.wait_for_sync(LIMIT).unwrap();
    let before = refusals(&server);
    let mut asking = JoinSet::new();
    let (asks, mine) = (store.clone(), claim("k", "node-1"));
    asking.spawn(async move { granted(&asks, &mine).await });
    wait::until_async("it refuses", LIMIT, async || refusals(&server) > before).await.unwrap();
    server.promote().unwrap();
    asking.join_next().await.unwrap().unwrap();
    assert_eq!(text(&server, &["GET", "k"]).as_deref(), Some("node-1"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_still_loads_its_data_is_retried_until_it_has() {
    // Half a millisecond for every key, and every few of them it answers that it loads.
    let server = Arc::new(
        RedisServer::builder()
            .appendonly(tenure_testkit::AppendFsync::Always)
            .config("key-load-delay", "500")
            .start()
            .unwrap(),
    );
    let url = format!("{}?quarantine_ms=0&op_timeout_ms=20000", server.url());
    let store = Redis::open(&url).await.unwrap();
    let first = granted(&store, &claim("k", "node-1")).await;
    let fill = "for i = 1, 4000 do redis.call('SET', 'fill:' .. i, 'x') end return 'done'";
    assert_eq!(text(&server, &["EVAL", fill, "0"]).as_deref(), Some("done"));
    server.kill9().unwrap();
    let (starts, mut starting) = (server.clone(), JoinSet::new());
    starting.spawn_blocking(move || starts.restart().unwrap());
    let busy = busy(&store, &claim("k", "node-2")).await;
    assert_eq!(busy.generation, Some(first.lease.generation), "it answered before it had its data");
    starting.join_next().await.unwrap().unwrap();
    assert!(refusals(&server) > 0, "it was never asked while it loaded");
}

#[tokio::test]
async fn an_acquire_whose_reply_is_lost_is_repeated() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.addr()).unwrap();
    let store = open(&proxy.url_for_redis()).await;
    let mine = claim("k", "node-1");
    proxy.cut_before_reply_to("node-1");
    let grant = granted(&store, &mine).await;
    assert_eq!(proxy.traps_sprung(), 1);
    let again = granted(&open(&server.url()).await, &mine).await;
    assert_eq!(again.lease.generation, grant.lease.generation);
}

#[tokio::test]
async fn a_release_whose_reply_is_lost_is_still_a_release() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.addr()).unwrap();
    let store = open(&proxy.url_for_redis()).await;
    let mine = claim("k", "node-1");
    granted(&store, &mine).await;
    proxy.cut_before_reply_to(mine.token.digest().as_bytes());
    assert_eq!(store.release(release(&mine)).await.unwrap(), Released::Released);
    assert_eq!(proxy.traps_sprung(), 1);
    assert_eq!(store.release(release(&mine)).await.unwrap(), Released::NotHeld);
}

#[tokio::test]
async fn a_server_that_stands_still_is_unknown_within_the_budget_and_recovers() {
    let server = RedisServer::start().unwrap();
    let store = Redis::open(&format!("{}?quarantine_ms=0&op_timeout_ms=600", server.url())).await.unwrap();
    let mine = claim("k", "node-1");
    let grant = granted(&store, &mine).await;
    server.pause().unwrap();
    let start = BootClock.now();
    let answer = store.acquire(claim("other", "node-1")).await;
    assert!(matches!(answer, Err(Error::Unknown { .. })), "{answer:?}");
    // What never left did not happen.
    let answer = store.renew(&[renewal(&mine, &grant)]).await.unwrap().remove(0);
    assert!(matches!(answer, Err(Error::Unknown { .. } | Error::Unavailable { .. })), "{answer:?}");
    let took = BootClock.now().since(start);
    assert!(took < Duration::from_secs(5), "{took:?}");
    server.resume().unwrap();
    let mut last = None;
    for _ in 0..20 {
        last = store.renew(&[renewal(&mine, &grant)]).await.unwrap().remove(0).ok();
        if last.is_some() {
            break;
        }
    }
    assert!(matches!(last, Some(Renewed::Renewed { .. })), "{last:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unavailable_and_nothing_happened() {
    let server = RedisServer::start().unwrap();
    let store = Redis::open(&format!("{}?quarantine_ms=0&op_timeout_ms=400", server.url())).await.unwrap();
    server.kill9().unwrap();
    // The first call may have left on the old connection; the second finds none.
    let _ = store.acquire(claim("k", "node-1")).await;
    let answer = store.acquire(claim("k", "node-1")).await;
    assert!(matches!(answer, Err(Error::Unavailable { .. })), "{answer:?}");
    assert!(Redis::open(&format!("{}?op_timeout_ms=200", server.url())).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_claim_outlives_a_lost_connection() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.addr()).unwrap();
    let (holder, waiter) = (open(&server.url()).await, open(&proxy.url_for_redis()).await);
    let mine = claim("k", "node-1");
    granted(&holder, &mine).await;
    let mut parked = JoinSet::new();
    let asked = claim("k", "node-2").waiting(LIMIT);
    parked.spawn(async move { waiter.acquire(asked).await });
    wait::until("it waits", LIMIT, || crate::redis_fixture::int(&server, &["LLEN", "tenure:w:k"]) == 1)
        .unwrap();
    proxy.cut().unwrap();
    holder.release(release(&mine)).await.unwrap();
    assert!(
        matches!(parked.join_next().await.unwrap().unwrap().unwrap(), Acquired::Granted(grant) if grant.parked)
    );
}

/// A claim that waits in the engine of the holder learns of its grant from the reply to the release.
#[tokio::test]
async fn a_grant_whose_reply_is_lost_is_found_by_a_recheck() {
    let mut handover = Handover::open().await;
    handover.proxy.cut_before_reply_to(handover.mine.token.digest().as_bytes());
    assert_eq!(handover.store.release(release(&handover.mine)).await.unwrap(), Released::Released);
    assert_eq!(handover.proxy.traps_sprung(), 1);
    handover.parked_claim_is_granted().await;
}

#[tokio::test]
async fn a_grant_whose_reply_is_not_read_is_found_by_a_recheck() {
    let mut handover = Handover::open().await;
    handover.proxy.set(Direction::ToClient, Mode::Stall);
    let (store, asked, mut leaving) = (Arc::clone(&handover.store), release(&handover.mine), JoinSet::new());
    leaving.spawn(async move { store.release(asked).await });
    while text(&handover.server, &["GET", "k"]).as_deref() != Some("next") {
        tokio::task::yield_now().await;
    }
    leaving.shutdown().await;
    handover.proxy.set(Direction::ToClient, Mode::Pass);
    handover.parked_claim_is_granted().await;
}

/// A holder and a claim that waits for its key, in one engine.
struct Handover {
    server: RedisServer,
    proxy: Proxy,
    store: Arc<Redis>,
    mine: Claim,
    parked: JoinSet<tenure_lease::Result<Acquired>>,
}

impl Handover {
    async fn open() -> Self {
        let server = RedisServer::start().unwrap();
        let proxy = Proxy::start(server.addr()).unwrap();
        let url = format!("{}?quarantine_ms=0", proxy.url_for_redis());
        let store = Arc::new(Redis::open_with(&url, Arc::new(BentClock(None))).await.unwrap());
        // A first release, so that the server knows its script.
        let other = claim("other", "node-1");
        granted(&store, &other).await;
        assert_eq!(store.release(release(&other)).await.unwrap(), Released::Released);
        let mine = claim("k", "node-1");
        granted(&store, &mine).await;
        let (waiter, mut parked) = (Arc::clone(&store), JoinSet::new());
        parked.spawn(async move { waiter.acquire(claim("k", "next").waiting(LIMIT)).await });
        while crate::redis_fixture::int(&server, &["LLEN", "tenure:w:k"]) == 0 {
            tokio::task::yield_now().await;
        }
        // Answered after the claim, so that nothing is under way any more and the release is a call of its own.
        store.inspect(&mine.key).await.unwrap();
        Self { server, proxy, store, mine, parked }
    }

    async fn parked_claim_is_granted(&mut self) {
        let answer = tokio::select! {
            answer = self.parked.join_next() => answer.unwrap().unwrap().unwrap(),
            () = BootClock.sleep_until(BootClock.now() + LIMIT) => panic!("the claim was not granted"),
        };
        assert!(matches!(&answer, Acquired::Granted(grant) if grant.parked), "{answer:?}");
    }
}

fn put(name: &str, value: &str) -> Op {
    Op::Put { key: Key::new(name).unwrap(), value: value.as_bytes().into(), ttl: None }
}

#[tokio::test]
async fn a_write_that_waits_for_a_replica_is_there_when_it_is_answered() {
    let primary = RedisServer::start().unwrap();
    let replica = RedisServer::builder().replica_of(&primary).start().unwrap();
    replica.wait_for_sync(LIMIT).unwrap();
    let store =
        Redis::open(&format!("{}?quarantine_ms=0&wait_replicas=1&op_timeout_ms=30000", primary.url()))
            .await
            .unwrap();
    for n in 0..50 {
        let (name, value) = (format!("r/{n}"), format!("value {n}"));
        assert!(matches!(store.commit(&[put(&name, &value)]).await.unwrap(), Committed::Written { .. }));
        let copy = replica.command(&["GET", &name]).unwrap();
        assert_eq!(copy.text(), Some(value.as_str()), "answered, and a failover would lose it");
    }
}

#[tokio::test]
async fn a_write_that_no_replica_has_is_not_reported_as_written() {
    let primary = RedisServer::start().unwrap();
    let replica = RedisServer::builder().replica_of(&primary).start().unwrap();
    replica.wait_for_sync(LIMIT).unwrap();
    let store = Redis::open(&format!("{}?quarantine_ms=0&wait_replicas=1&op_timeout_ms=500", primary.url()))
        .await
        .unwrap();
    replica.pause().unwrap();
    let error = store.commit(&[put("r", "1")]).await.unwrap_err();
    assert!(matches!(error, Error::Unknown { .. }), "{error:?}");
    assert!(error.to_string().contains("0 of 1 replicas"), "{error}");
    replica.resume().unwrap();
    let patient =
        Redis::open(&format!("{}?quarantine_ms=0&wait_replicas=1&op_timeout_ms=30000", primary.url()))
            .await
            .unwrap();
    assert!(matches!(patient.commit(&[put("r", "2")]).await.unwrap(), Committed::Written { .. }));
}

#[tokio::test]
async fn leases_are_granted_while_writes_wait_for_a_replica() {
    let primary = RedisServer::start().unwrap();
    let store =
        Redis::open(&format!("{}?quarantine_ms=0&wait_replicas=1&op_timeout_ms=60000", primary.url()))
            .await
            .unwrap();
    let change = [put("r", "1")];
    let mut waiting = Box::pin(store.commit(&change));
    let mine = claim("k", "node-1");
    // There is no replica, so the write waits for a minute; a lease behind it on the same connection would, too.
    tokio::select! {
        biased;
        answer = &mut waiting => panic!("no replica has it: {answer:?}"),
        grant = async {
            while primary.command(&["GET", "r"]).unwrap().text().is_none() {
                tokio::task::yield_now().await;
            }
            granted(&store, &mine).await
        } => assert_eq!(grant.lease.holder, mine.holder),
    }
}

#[tokio::test]
async fn holders_go_on_renewing_while_free_keys_are_in_quarantine() {
    let server = RedisServer::builder().appendonly(tenure_testkit::AppendFsync::Always).start().unwrap();
    let url = format!("{}?max_ttl_ms=60000", server.url());
    let before = Redis::open(&format!("{}?quarantine_ms=0&max_ttl_ms=60000", server.url())).await.unwrap();
    let mine = claim("k", "node-1");
    let grant = granted(&before, &mine).await;
    server.restart().unwrap();
    let store = Redis::open(&url).await.unwrap();
    let renewed = renewals(store.renew(&[renewal(&mine, &grant)]).await);
    assert!(matches!(renewed[..], [Renewed::Renewed { .. }]), "{renewed:?}");
    let answer = busy(&store, &claim("free", "node-2")).await;
    assert_eq!(answer.reason, BusyReason::Quarantine);
    let left = answer.remaining.unwrap();
    assert!(left <= Duration::from_secs(60) && left > Duration::from_secs(30), "{left:?}");
    // A held key is not in quarantine.
    assert_eq!(busy(&store, &claim("k", "node-2")).await.reason, BusyReason::Held);
}

#[tokio::test]
async fn a_client_that_has_seen_another_server_waits_also_where_that_one_has_long_been_up() {
    let (first, second) = (RedisServer::start().unwrap(), RedisServer::start().unwrap());
    // As if it had been up for long: it is known, and its quarantine is over.
    granted(&open(&second.url()).await, &brief("other")).await;
    let front = Proxy::start(first.addr()).unwrap();
    let url = format!("{}?max_ttl_ms=2000", front.url_for_redis());
    let store = Redis::open(&url).await.unwrap();
    granted_in_time(&store, "k").await;
    front.point_to(second.addr());
    front.cut().unwrap();
    let answer = busy(&store, &brief("k")).await;
    assert_eq!(answer.reason, BusyReason::Quarantine, "{answer:?}");
    granted_in_time(&store, "k").await;
}

fn brief(name: &str) -> Claim {
    let mut claim = claim(name, "node-1");
    claim.ttl = tenure_lease::Ttl::from_millis(2_000).unwrap();
    claim
}

/// Granted, though a quarantine may come first.
async fn granted_in_time(store: &Redis, name: &str) {
    let answer = store.acquire(brief(name).waiting(LIMIT)).await.unwrap();
    assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
}

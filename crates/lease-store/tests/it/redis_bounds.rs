//! What the Redis engine keeps is bounded, also where the server has no memory left.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{
    Acquired, Committed, Error, Fence, Generation, Holder, Leases, Mode, Op, Prefix, Proof, Records,
    Released, Revoke, RevokeReason, Revoked, Token, Transfer, Transferred, Wipe, Wiped,
};
use tenure_store::{OsEntropy, Redis};
use tenure_testkit::{RedisServer, wait};
use tokio::task::JoinSet;

use crate::redis_fixture::{LIMIT, claim, granted, int, key, open, release, renewal, text};
use crate::renewals;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_memory_leases_are_renewed_and_ended_and_nothing_is_granted() {
    let server = RedisServer::start().unwrap();
    let store = Arc::new(open(&server.url()).await);
    let held = ["gate", "renewed", "released", "revoked", "wiped", "moved"].map(|name| claim(name, "node-1"));
    let mut grants = Vec::new();
    for claim in &held {
        grants.push(granted(&store, claim).await);
    }
    let (waits, mut parked) = (store.clone(), JoinSet::new());
    parked.spawn(async move { granted(&waits, &claim("moved", "node-2").waiting(LIMIT)).await });
    wait::until_async("it waits", LIMIT, async || int(&server, &["LLEN", "tenure:w:moved"]) == 1)
        .await
        .unwrap();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let refused = store.acquire(claim("k", "node-1")).await.unwrap_err();
    assert!(
        matches!(&refused, Error::Unavailable { why, .. } if why.contains("out of memory")),
        "{refused:?}"
    );
    let renewed = renewals(store.renew(&[renewal(&held[1], &grants[1])]).await);
    assert!(matches!(renewed[..], [tenure_lease::Renewed::Renewed { .. }]), "{renewed:?}");
    assert_eq!(store.release(release(&held[2])).await.unwrap(), Released::Released);
    assert_eq!(store.release(release(&held[2])).await.unwrap(), Released::NotHeld);
    let (key, generation) = (held[3].key.clone(), grants[3].lease.generation);
    let revoke = Revoke { key, generation, delay: None, reason: RevokeReason::default() };
    assert!(matches!(store.revoke(revoke).await.unwrap(), Revoked::Revoked { .. }));
    let gate = Proof {
        key: held[0].key.clone(),
        token: held[0].token.clone(),
        generation: grants[0].lease.generation,
    };
    let wiped = store.wipe(Wipe { prefix: Prefix::new("wiped").unwrap(), gate }).await.unwrap();
    assert_eq!(wiped, Wiped::Wiped { count: 1 });
    let transfer = Transfer {
        key: held[5].key.clone(),
        token: held[5].token.clone(),
        generation: grants[5].lease.generation,
        to: Holder::new("node-2").unwrap(),
    };
    assert!(matches!(store.transfer(transfer).await.unwrap(), Transferred::Transferred(_)));
    parked.join_next().await.unwrap().unwrap();
    // Each is over exactly once.
    for name in ["released", "revoked", "wiped", "moved"] {
        assert_eq!(int(&server, &["LLEN", &format!("tenure:h:{name}")]), 1, "{name}");
    }
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    granted(&store, &claim("released", "node-2")).await;
}

/// Fills the queue of a key with claims of a process that is gone; `wait` is what is left of their time, in ms.
fn fill_queue(server: &RedisServer, wait: Option<u32>) {
    let fill = "for i = 1, 1024 do \
                redis.call('RPUSH', 'tenure:w:k', 'dead' .. i) \
                if ARGV[1] ~= '' then \
                redis.call('HSET', 'tenure:waiter:dead' .. i, 'token', i, 'holder', 'h', 'ttl', 500, 'meta', '', \
                'instance', 'gone') \
                redis.call('PEXPIRE', 'tenure:waiter:dead' .. i, ARGV[1]) end end return 1";
    let wait = wait.map(|wait| wait.to_string()).unwrap_or_default();
    assert_eq!(int(server, &["EVAL", fill, "0", &wait]), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_processes_that_are_gone_take_no_place_in_a_full_queue() {
    for wait in [None, Some(600_000)] {
        let server = RedisServer::start().unwrap();
        let store = Arc::new(open(&server.url()).await);
        let mine = claim("k", "node-1");
        granted(&store, &mine).await;
        fill_queue(&server, wait);
        let (waits, mut parked) = (store.clone(), JoinSet::new());
        parked.spawn(async move { waits.acquire(claim("k", "node-2").waiting(LIMIT)).await });
        let waiting = async || int(&server, &["LLEN", "tenure:w:k"]) == 1;
        wait::until_async("it waits alone", LIMIT, waiting).await.unwrap();
        assert_eq!(int(&server, &["EXISTS", "tenure:waiter:dead7"]), 0);
        store.release(release(&mine)).await.unwrap();
        let answer = parked.join_next().await.unwrap().unwrap().unwrap();
        assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
    }
}

#[tokio::test]
async fn the_latest_65536_tombstones_are_kept() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let fill = "local now = redis.call('TIME')[1] * 1000 \
                for i = 1, 66000 do redis.call('ZADD', 'tenure:unused', now + 1000 + i / 2, 't' .. i) end return 1";
    assert_eq!(int(&server, &["EVAL", fill, "0"]), 1);
    let mine = claim("k", "node-1");
    assert_eq!(store.release(release(&mine)).await.unwrap(), Released::NotHeld);
    assert!(int(&server, &["ZCARD", "tenure:unused"]) <= 65_536);
    let refused = store.acquire(mine).await.unwrap_err().to_string();
    assert!(refused.contains("spent"), "the newest is kept: {refused}");
}

/// Writes under the fence of a key, releases it, and waits until a sweep has seen that it is free.
async fn used_and_free(server: &RedisServer, store: &Redis) -> Fence {
    let mine = claim("k", "node-1");
    let fence = fence(&mine, granted(store, &mine).await.lease.generation, Mode::Monotonic);
    assert!(matches!(store.write_fenced(&fence, &[put()]).await.unwrap(), Committed::Written { .. }));
    store.release(release(&mine)).await.unwrap();
    server.command(&["ZADD", "tenure:index", "1", "k"]).unwrap();
    let swept = async || text(server, &["ZSCORE", "tenure:freed", "k"]).is_some();
    wait::until_async("it is swept", LIMIT, swept).await.unwrap();
    assert_eq!(int(server, &["EXISTS", "tenure:g:k", "tenure:h:k", "tenure:m:k"]), 3);
    fence
}

async fn until_forgotten(server: &RedisServer) {
    let forgotten = async || text(server, &["ZSCORE", "tenure:freed", "k"]).is_none();
    wait::until_async("it is forgotten", LIMIT, forgotten).await.unwrap();
}

#[tokio::test]
async fn the_past_of_a_free_key_is_forgotten_after_seven_days_and_generations_still_rise() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let fence = used_and_free(&server, &store).await;
    // As if it had been free for seven days.
    let freed: i64 = text(&server, &["ZSCORE", "tenure:freed", "k"]).unwrap().parse().unwrap();
    let week = Duration::from_secs(7 * 86_400).as_millis() as i64;
    server.command(&["ZADD", "tenure:freed", &(freed - week).to_string(), "k"]).unwrap();
    until_forgotten(&server).await;
    assert_eq!(int(&server, &["EXISTS", "tenure:g:k", "tenure:h:k", "tenure:m:k"]), 0);
    // Nothing proves the older reign any more, and the next one has a greater generation.
    let late = store.write_fenced(&fence, &[put()]).await.unwrap();
    assert_eq!(late, Committed::FencedOut { current: None });
    assert!(granted(&store, &claim("k", "node-2")).await.lease.generation > fence.generation);
}

#[tokio::test]
async fn of_too_many_free_keys_the_oldest_are_forgotten() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    used_and_free(&server, &store).await;
    let fill = "local now = redis.call('TIME')[1] * 1000 + 60000 \
                for i = 1, 100050 do redis.call('ZADD', 'tenure:freed', now, 'free' .. i) end return 1";
    assert_eq!(int(&server, &["EVAL", fill, "0"]), 1);
    until_forgotten(&server).await;
    assert_eq!(int(&server, &["EXISTS", "tenure:g:k", "tenure:h:k", "tenure:m:k"]), 0);
    let bounded = async || int(&server, &["ZCARD", "tenure:freed"]) == 100_000;
    wait::until_async("the others are kept", LIMIT, bounded).await.unwrap();
}

#[tokio::test]
async fn the_past_of_a_key_that_was_granted_again_is_kept() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let fence = used_and_free(&server, &store).await;
    granted(&store, &claim("k", "node-2")).await;
    server.command(&["ZADD", "tenure:freed", "1", "k"]).unwrap();
    until_forgotten(&server).await;
    assert_eq!(int(&server, &["EXISTS", "tenure:g:k", "tenure:h:k", "tenure:m:k"]), 3);
    assert!(matches!(store.write_fenced(&fence, &[put()]).await.unwrap(), Committed::Written { .. }));
}

fn put() -> Op {
    Op::Put { key: key("r"), value: b"1"[..].into(), ttl: None }
}

fn fence(claim: &tenure_lease::Claim, generation: Generation, mode: Mode) -> Fence {
    Fence { key: claim.key.clone(), token: claim.token.clone(), generation, mode }
}

#[tokio::test]
async fn a_fence_that_nothing_proves_leaves_no_mark() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let mine = claim("k", "node-1");
    let generation = granted(&store, &mine).await.lease.generation;
    let real = fence(&mine, generation, Mode::Monotonic);
    let invented = [
        Fence { generation: Generation::new((1 << 53) - 1).unwrap(), ..real.clone() },
        Fence { generation: Generation::new(generation.get() + 1).unwrap(), ..real.clone() },
        Fence { token: Token::random(&OsEntropy), ..real.clone() },
        Fence { key: key("never-held"), ..real.clone() },
    ];
    for fence in &invented {
        let answer = store.write_fenced(fence, &[put()]).await.unwrap();
        assert!(matches!(answer, Committed::FencedOut { .. }), "{fence:?}: {answer:?}");
    }
    assert_eq!(text(&server, &["GET", "r"]), None);
    assert_eq!(int(&server, &["EXISTS", "tenure:m:k", "tenure:m:never-held"]), 0);
    assert!(matches!(store.write_fenced(&real, &[put()]).await.unwrap(), Committed::Written { .. }));
    // Its reign is over, and no other has written.
    store.release(release(&mine)).await.unwrap();
    granted(&store, &claim("k", "node-2")).await;
    assert!(matches!(store.write_fenced(&real, &[put()]).await.unwrap(), Committed::Written { .. }));
}

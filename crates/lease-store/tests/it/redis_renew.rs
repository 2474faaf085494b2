//! Renewals in Redis.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Acquired, Claim, End, Error, Generation, Grant, Leases, Released, Renewal, Renewed, Ttl};
use tenure_store::Redis;
use tenure_testkit::{Direction, Mode, Proxy, RedisServer, wait};
use tokio::task::JoinSet;

use crate::redis_fixture::{LIMIT, claim, granted, int, open, release, renewal, text};
use crate::renewals;

const LOST: Renewed = Renewed::Lost(End::Gone);

fn renewed(seconds: u64) -> Renewed {
    Renewed::Renewed { remaining: Duration::from_secs(seconds) }
}

/// A reign that was renewed once.
async fn granted_and_renewed(store: &Redis, claim: &Claim) -> Grant {
    let grant = granted(store, claim).await;
    assert_eq!(renewals(store.renew(&[renewal(claim, &grant)]).await), [renewed(20)]);
    grant
}

#[tokio::test]
async fn a_renewal_prolongs_the_key_and_its_fields() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let mine = claim("k", "node-1");
    let grant = granted_and_renewed(&store, &mine).await;
    int(&server, &["PEXPIRE", "k", "5000"]);
    assert_eq!(renewals(store.renew(&[renewal(&mine, &grant)]).await), [renewed(20)]);
    assert!(int(&server, &["PTTL", "k"]) > 5_000);
    let expires = int(&server, &["PEXPIRETIME", "k"]).to_string();
    assert_eq!(text(&server, &["HGET", "tenure:l:k", "expires"]), Some(expires));
    assert_eq!(store.release(release(&mine)).await.unwrap(), Released::Released);
}

#[tokio::test]
async fn a_renewal_needs_the_token_and_the_generation() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let mine = claim("k", "node-1");
    let grant = granted(&store, &mine).await;
    let other = Renewal {
        generation: Generation::new(grant.lease.generation.get() - 1).unwrap(),
        ..renewal(&mine, &grant)
    };
    let stranger = renewal(&claim("k", "node-1"), &grant);
    for when in ["before", "after"] {
        for wrong in [&other, &stranger] {
            assert_eq!(renewals(store.renew(std::slice::from_ref(wrong)).await), [LOST], "{when}: {wrong:?}");
        }
        assert_eq!(renewals(store.renew(&[renewal(&mine, &grant)]).await), [renewed(20)], "{when}");
    }
}

#[tokio::test]
async fn a_reign_is_lost_with_its_key_its_fields_or_its_holder() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    for (name, damage) in [
        ("a", &["SET", "a", "another", "PX", "9000"][..]),
        ("b", &["DEL", "b"]),
        ("c", &["DEL", "tenure:l:c"]),
    ] {
        let mine = claim(name, "node-1");
        let grant = granted_and_renewed(&store, &mine).await;
        server.command(damage).unwrap();
        let answer = renewals(store.renew(&[renewal(&mine, &grant)]).await);
        assert!(matches!(answer[..], [Renewed::Lost(_)]), "{name}: {answer:?}");
    }
    assert!(int(&server, &["PTTL", "a"]) <= 9_000, "a foreign key is not prolonged");
}

/// The successor has the same name, so only token and generation differ.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_was_handed_to_a_namesake_cannot_be_renewed_by_its_former_holder() {
    let server = RedisServer::start().unwrap();
    let store = Arc::new(open(&server.url()).await);
    let mine = claim("k", "node-1");
    let grant = granted_and_renewed(&store, &mine).await;
    let (successor, waiter, mut parked) = (claim("k", "node-1"), Arc::clone(&store), JoinSet::new());
    let waiting = successor.clone().waiting(LIMIT);
    parked.spawn(async move { waiter.acquire(waiting).await });
    wait::until("it waits", LIMIT, || int(&server, &["LLEN", "tenure:w:k"]) == 1).unwrap();
    assert_eq!(store.release(release(&mine)).await.unwrap(), Released::Released);
    let Acquired::Granted(inherited) = parked.join_next().await.unwrap().unwrap().unwrap() else {
        panic!("the successor was not granted")
    };
    let answers = renewals(store.renew(&[renewal(&mine, &grant), renewal(&successor, &inherited)]).await);
    assert_eq!(answers, [Renewed::Lost(End::Released), renewed(20)]);
}

#[tokio::test]
async fn a_changed_ttl_stays() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let mine = claim("k", "node-1");
    let grant = granted_and_renewed(&store, &mine).await;
    let plain = [renewal(&mine, &grant)];
    for seconds in [5, 25] {
        let changed = Renewal { ttl: Some(Ttl::from_secs(seconds).unwrap()), ..plain[0].clone() };
        assert_eq!(renewals(store.renew(&[changed]).await), [renewed(seconds)]);
        assert_eq!(renewals(store.renew(&plain).await), [renewed(seconds)], "and the next one");
    }
    let again = Claim { ttl: Ttl::from_secs(10).unwrap(), ..mine.clone() };
    assert_eq!(granted(&store, &again).await.lease.generation, grant.lease.generation);
    assert_eq!(renewals(store.renew(&plain).await), [renewed(10)]);
    assert_eq!(renewals(store.renew(&plain).await), [renewed(10)], "and the next one");
}

/// One call with several holders and TTLs, a long name, a ttl that changes, a lost reign, and fields of another type.
#[tokio::test]
async fn every_renewal_of_a_mixed_batch_gets_its_own_answer() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let long = "n".repeat(60);
    let holders =
        [("a", "node-1"), ("b", "node-2"), ("c", "node-1"), ("d", &long), ("e", "node-1"), ("f", "node-1")];
    let claims = holders.map(|(name, holder)| claim(name, holder));
    let mut items = Vec::new();
    for (i, mine) in claims.iter().enumerate() {
        let mine = Claim { ttl: Ttl::from_secs(if i == 2 { 8 } else { 20 }).unwrap(), ..mine.clone() };
        items.push(renewal(&mine, &granted(&store, &mine).await));
    }
    let all = [renewed(20), renewed(20), renewed(8), renewed(20), renewed(20), renewed(20)];
    for turn in 1..=3 {
        assert_eq!(renewals(store.renew(&items).await), all, "turn {turn}");
    }
    text(&server, &["SET", "tenure:l:e", "what is this", "PX", "20000"]);
    int(&server, &["DEL", "f"]);
    items[1].ttl = Some(Ttl::from_secs(9).unwrap());
    let answers = renewals(store.renew(&items).await);
    assert_eq!(answers[..4], [renewed(20), renewed(9), renewed(8), renewed(20)]);
    assert!(answers[4..].iter().all(|answer| matches!(answer, Renewed::Lost(_))), "{answers:?}");
    assert_eq!(renewals(store.renew(&items[..1]).await), [renewed(20)]);
}

#[tokio::test]
async fn a_thousand_renewals_are_one_round_trip() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.addr()).unwrap();
    let url = format!("{}?quarantine_ms=0&op_timeout_ms=20000", proxy.url_for_redis());
    let store = Arc::new(Redis::open(&url).await.unwrap());
    let mut items = Vec::new();
    for n in 0..1_000 {
        let claim = claim(&format!("t/{n}"), "node-1");
        let grant = granted(&store, &claim).await;
        items.push(Renewal { ttl: Some(Ttl::from_secs(30).unwrap()), ..renewal(&claim, &grant) });
    }
    // The script is there, and no answer comes any more.
    renewals(store.renew(&items[..1]).await);
    proxy.set(Direction::ToClient, Mode::Stall);
    let (mut asking, asks) = (JoinSet::new(), store.clone());
    asking.spawn(async move { asks.renew(&items).await });
    let count = "local n = 0 for i = 0, 999 do if redis.call('PTTL', 't/' .. i) > 20000 then n = n + 1 end end return n";
    let all = async || int(&server, &["EVAL", count, "0"]) == 1_000;
    wait::until_async("all of them have arrived", LIMIT, all).await.unwrap();
    proxy.set(Direction::ToClient, Mode::Pass);
    let renewed = renewals(asking.join_next().await.unwrap().unwrap());
    assert!(renewed.len() == 1_000 && renewed.iter().all(|r| matches!(r, Renewed::Renewed { .. })));
}

#[tokio::test]
async fn renewals_of_other_calls_do_not_fail_with_one_that_does() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let mut items = Vec::new();
    for n in 0..1_000 {
        let claim = claim(&format!("t/{n}"), "node-1");
        let grant = granted(&store, &claim).await;
        items.push(renewal(&claim, &grant));
    }
    // A row that no script can read.
    server.command(&["HDEL", "tenure:l:t/250", "expires"]).unwrap();
    let answers = store.renew(&items).await.unwrap();
    for (n, answer) in answers.iter().enumerate() {
        match n / 100 {
            2 => assert!(matches!(answer, Err(Error::Unknown { .. })), "{n}: {answer:?}"),
            _ => assert!(matches!(answer, Ok(Renewed::Renewed { .. })), "{n}: {answer:?}"),
        }
    }
}

#[tokio::test]
async fn a_key_whose_generations_are_used_up_is_not_granted() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    let first = claim("k", "node-1");
    granted(&store, &first).await;
    store.release(release(&first)).await.unwrap();
    // As if there had been so many.
    server.command(&["SET", "tenure:g:k", "9007199254740991"]).unwrap();
    let refused = store.acquire(claim("k", "node-2")).await.unwrap_err();
    assert!(refused.to_string().contains("2^53"), "{refused}");
    assert_eq!(text(&server, &["GET", "k"]), None);
}

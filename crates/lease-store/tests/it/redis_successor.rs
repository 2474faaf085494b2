//! Releases in Redis that grant the key to a waiting claim.

use std::sync::Arc;

use futures_util::future::join_all;
use tenure_lease::{Acquired, Claim, End, Grant, Leases, Released, Ttl};
use tenure_store::Redis;
use tenure_testkit::{RedisServer, Reply, wait};
use tokio::task::JoinSet;

use crate::redis_fixture::{LIMIT, claim, granted, int, open, release, text};

type Parked = JoinSet<(Claim, tenure_lease::Result<Acquired>)>;

/// Lets a claim wait for a key that is held.
fn park(parked: &mut Parked, server: &RedisServer, store: &Arc<Redis>, claim: Claim) {
    let (store, asked) = (Arc::clone(store), claim.clone().waiting(LIMIT));
    parked.spawn(async move { (claim, store.acquire(asked.clone()).await) });
    wait::until("it waits", LIMIT, || int(server, &["LLEN", "tenure:w:k"]) == 1).unwrap();
}

async fn next_grant(parked: &mut Parked) -> (Claim, Grant) {
    match parked.join_next().await.unwrap().unwrap() {
        (claim, Ok(Acquired::Granted(grant))) => (claim, grant),
        (_, other) => panic!("{other:?}"),
    }
}

/// Lua counts in floating point; these numbers have as many digits as it can show.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generations_and_revisions_are_counted_exactly() {
    let server = RedisServer::start().unwrap();
    let store = Arc::new(open(&server.url()).await);
    granted(&store, &claim("other", "node-1")).await;
    let numbers = ["floor", "4999999999999998", "revision", "4999999999999997"];
    server.command(&[&["HSET", "tenure:store"], &numbers[..]].concat()).unwrap();
    let mine = claim("k", "node-1");
    assert_eq!(granted(&store, &mine).await.lease.generation.get(), 4_999_999_999_999_999);
    assert_eq!(text(&server, &["HGET", "tenure:store", "revision"]).as_deref(), Some("4999999999999998"));
    let mut parked = Parked::new();
    park(&mut parked, &server, &store, claim("k", "next"));
    assert_eq!(store.release(release(&mine)).await.unwrap(), Released::Released);
    let (next, grant) = next_grant(&mut parked).await;
    assert_eq!(grant.lease.generation.get(), 5_000_000_000_000_000);
    for at in [
        &["GET", "tenure:g:k"][..],
        &["HGET", "tenure:l:k", "generation"],
        &["HGET", "tenure:store", "revision"],
    ] {
        assert_eq!(text(&server, at).as_deref(), Some("5000000000000000"), "{at:?}");
    }
    assert_eq!(last_event(&server), "4999999999999999-0", "the first revision of two");
    assert_eq!(store.release(release(&next)).await.unwrap(), Released::Released);
    assert_eq!(last_event(&server), "5000000000000001-0");
}

/// A floor that was changed by hand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lower_floor_does_not_lower_generations() {
    let server = RedisServer::start().unwrap();
    let store = Arc::new(open(&server.url()).await);
    let mine = claim("k", "node-1");
    let before = granted(&store, &mine).await.lease.generation;
    server.command(&["HSET", "tenure:store", "floor", "41"]).unwrap();
    let mut parked = Parked::new();
    park(&mut parked, &server, &store, claim("k", "next"));
    assert_eq!(store.release(release(&mine)).await.unwrap(), Released::Released);
    let (next, grant) = next_grant(&mut parked).await;
    assert!(grant.lease.generation > before);
    assert_eq!(store.release(release(&next)).await.unwrap(), Released::Released);
    assert!(granted(&store, &claim("k", "node-2")).await.lease.generation > grant.lease.generation);
}

/// Otherwise its end would be noticed as late as that of the reign before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_with_a_shorter_ttl_gets_its_own_time_in_the_index() {
    let server = RedisServer::start().unwrap();
    let store = Arc::new(open(&server.url()).await);
    let mine = claim("k", "node-1");
    granted(&store, &mine).await;
    let mut parked = Parked::new();
    let short = Claim { ttl: Ttl::from_millis(500).unwrap(), ..claim("k", "short") };
    park(&mut parked, &server, &store, short);
    let score = || text(&server, &["ZSCORE", "tenure:index", "k"]).unwrap().parse::<u64>().unwrap();
    let before = score();
    assert_eq!(store.release(release(&mine)).await.unwrap(), Released::Released);
    next_grant(&mut parked).await;
    assert!(score() + 10_000 < before, "{} and {before}", score());
    wait::until("its end is noticed", LIMIT, || int(&server, &["LLEN", "tenure:h:k"]) == 2).unwrap();
}

/// The server's clock was set back since the reign was scheduled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_does_not_keep_a_time_in_the_index_that_is_after_its_end() {
    let server = RedisServer::start().unwrap();
    let store = Arc::new(open(&server.url()).await);
    let mine = claim("k", "node-1");
    granted(&store, &mine).await;
    let mut parked = Parked::new();
    park(&mut parked, &server, &store, claim("k", "next"));
    let score = || text(&server, &["ZSCORE", "tenure:index", "k"]).unwrap().parse::<u64>().unwrap();
    let late = (score() + 3_600_000).to_string();
    int(&server, &["ZADD", "tenure:index", &late, "k"]);
    assert_eq!(score().to_string(), late);
    assert_eq!(store.release(release(&mine)).await.unwrap(), Released::Released);
    next_grant(&mut parked).await;
    assert!(score() + 3_000_000 < late.parse().unwrap(), "{} and {late}", score());
}

/// It keeps the time in the index of the reign before it, which is early enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_successor_with_a_longer_ttl_lives_for_as_long_as_it_asked_for() {
    let server = RedisServer::start().unwrap();
    let store = Arc::new(open(&server.url()).await);
    let mine = Claim { ttl: Ttl::from_secs(5).unwrap(), ..claim("k", "node-1") };
    granted(&store, &mine).await;
    let mut parked = Parked::new();
    park(&mut parked, &server, &store, claim("k", "next"));
    let score = || text(&server, &["ZSCORE", "tenure:index", "k"]);
    let before = score();
    assert_eq!(store.release(release(&mine)).await.unwrap(), Released::Released);
    next_grant(&mut parked).await;
    assert_eq!(score(), before);
    let left = int(&server, &["PTTL", "k"]);
    assert!((6_000..=20_000).contains(&left), "{left}");
}

/// Some have a successor in this process, some in another, some have none, and some hold nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_that_share_a_call_hand_over_to_the_successor_of_each() {
    let server = RedisServer::start().unwrap();
    let (store, other) = (Arc::new(open(&server.url()).await), Arc::new(open(&server.url()).await));
    let names: Vec<_> = (0..16).map(|n| format!("k{n}")).collect();
    let claims: Vec<_> = names.iter().map(|name| claim(name, "node-1")).collect();
    let (mut parked, mut generations) = (Parked::new(), Vec::new());
    for (n, (name, claim)) in names.iter().zip(&claims).enumerate() {
        if n % 4 == 3 {
            generations.push(None);
            continue;
        }
        generations.push(Some(granted(&store, claim).await.lease.generation));
        if let Some(store) = [Some(&store), Some(&other), None][n % 4] {
            let (store, next) = (Arc::clone(store), self::claim(name, "next").waiting(LIMIT));
            parked.spawn(async move { (next.clone(), store.acquire(next).await) });
            let queue = format!("tenure:w:{name}");
            wait::until("it waits", LIMIT, || int(&server, &["LLEN", &queue]) == 1).unwrap();
        }
    }
    let answers = join_all(claims.iter().map(|claim| store.release(release(claim)))).await;
    for (n, answer) in answers.into_iter().enumerate() {
        let wanted = if n % 4 == 3 { Released::NotHeld } else { Released::Released };
        assert_eq!(answer.unwrap(), wanted, "{}", names[n]);
    }
    for _ in 0..8 {
        let (claim, grant) = next_grant(&mut parked).await;
        let n = names.iter().position(|name| *name == claim.key.as_str()).unwrap();
        assert!(n % 4 < 2 && Some(grant.lease.generation) > generations[n], "{}", names[n]);
        let reigns = store.history(&claim.key).await.unwrap();
        let ends: Vec<_> = reigns.iter().map(|reign| (reign.generation, reign.end)).collect();
        assert_eq!(ends[0], (generations[n].unwrap(), Some(End::Released)), "{}", names[n]);
        assert_eq!(ends[1], (grant.lease.generation, None), "{}", names[n]);
    }
    for n in [2, 6, 10, 14] {
        assert_eq!(int(&server, &["EXISTS", &names[n], &format!("tenure:l:{}", names[n])]), 0);
        granted(&store, &claim(&names[n], "node-2")).await;
    }
}

/// The id of the newest entry in the stream of events.
fn last_event(server: &RedisServer) -> String {
    let Reply::Array(Some(entries)) =
        server.command(&["XREVRANGE", "tenure:events", "+", "-", "COUNT", "1"]).unwrap()
    else {
        panic!("no stream")
    };
    let Some(Reply::Array(Some(entry))) = entries.first() else { panic!("no entry") };
    entry[0].text().unwrap().to_owned()
}

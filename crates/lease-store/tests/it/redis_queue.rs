//! Claims that wait in Redis, in processes that live and die.

use std::sync::Arc;

use tenure_lease::{Acquired, Leases, Released};
use tenure_testkit::{RedisServer, Reply, wait};
use tokio::task::JoinSet;

use crate::redis_fixture::{LIMIT, claim, granted, int, open, release, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_waiters_are_granted_in_the_order_they_came() {
    let server = RedisServer::start().unwrap();
    let stores = [Arc::new(open(&server.url()).await), Arc::new(open(&server.url()).await)];
    let mut holder = claim("k", "first");
    granted(&stores[0], &holder).await;
    let (mut claims, mut parked) = (Vec::new(), JoinSet::new());
    for n in 0..50 {
        let claim = claim("k", &format!("w{n}")).waiting(LIMIT);
        let (store, asked) = (Arc::clone(&stores[n % 2]), claim.clone());
        parked.spawn(async move { (n, store.acquire(asked).await) });
        claims.push(claim);
        wait::until("it waits", LIMIT, || int(&server, &["LLEN", "tenure:w:k"]) == n as i64 + 1).unwrap();
    }
    let mut last = None;
    for (turn, claim) in claims.into_iter().enumerate() {
        stores[0].release(release(&holder)).await.unwrap();
        let (n, answer) = parked.join_next().await.unwrap().unwrap();
        let Acquired::Granted(grant) = answer.unwrap() else { panic!("w{n} was not granted") };
        assert_eq!(n, turn);
        assert!(grant.parked && Some(grant.lease.generation) > last);
        last = Some(grant.lease.generation);
        holder = claim;
    }
}

/// A process that died leaves its claims in the queue, and no subscriber on its channel.
#[test]
fn a_waiter_whose_process_is_gone_is_skipped() {
    let server = RedisServer::start().unwrap();
    let (doomed, living) = (runtime(), runtime());
    let store = Arc::new(living.block_on(open(&server.url())));
    let mine = claim("k", "node-1");
    living.block_on(granted(&store, &mine));
    let gone = doomed.block_on(open(&server.url()));
    doomed.spawn(async move { gone.acquire(claim("k", "gone").waiting(LIMIT)).await });
    wait::until("the first waits", LIMIT, || int(&server, &["LLEN", "tenure:w:k"]) == 1).unwrap();
    let waiter = Arc::clone(&store);
    let next = living.spawn(async move { waiter.acquire(claim("k", "next").waiting(LIMIT)).await });
    wait::until("the second waits", LIMIT, || int(&server, &["LLEN", "tenure:w:k"]) == 2).unwrap();
    let listening = || match server.command(&["PUBSUB", "CHANNELS", "tenure:c:*"]).unwrap() {
        Reply::Array(Some(channels)) => channels.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(listening(), 2);
    doomed.shutdown_background();
    wait::until("the channel of the first has no subscriber", LIMIT, || listening() == 1).unwrap();
    living.block_on(store.release(release(&mine))).unwrap();
    let grant = living.block_on(next).unwrap().unwrap();
    assert!(matches!(&grant, Acquired::Granted(g) if g.lease.holder.as_str() == "next"), "{grant:?}");
    assert_eq!(int(&server, &["LLEN", "tenure:w:k"]), 0);
}

/// A lease ends with its fields, whatever the key says: there is nothing to hand over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_without_the_fields_of_its_lease_hands_nothing_over() {
    let server = RedisServer::start().unwrap();
    let store = Arc::new(open(&server.url()).await);
    let mine = claim("k", "node-1");
    granted(&store, &mine).await;
    let (waiter, mut parked) = (Arc::clone(&store), JoinSet::new());
    parked.spawn(async move { waiter.acquire(claim("k", "next").waiting(LIMIT)).await });
    wait::until("it waits", LIMIT, || int(&server, &["LLEN", "tenure:w:k"]) == 1).unwrap();
    assert_eq!(int(&server, &["DEL", "tenure:l:k"]), 1);
    assert_eq!(store.release(release(&mine)).await.unwrap(), Released::NotHeld);
    assert_eq!(text(&server, &["GET", "k"]).as_deref(), Some("node-1"));
    assert_eq!(int(&server, &["EXISTS", "tenure:l:k"]), 0);
    assert_eq!(int(&server, &["LLEN", "tenure:w:k"]), 1);
}

/// A queue that all claims have left is served again once one joins it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abandoned_queue_delays_no_claim() {
    let server = RedisServer::start().unwrap();
    let store = Arc::new(open(&server.url()).await);
    let mine = claim("k", "node-1");
    granted(&store, &mine).await;
    for round in 0..2 {
        let (waiter, mut leaving) = (Arc::clone(&store), JoinSet::new());
        leaving.spawn(async move { waiter.acquire(claim("k", "left").waiting(LIMIT)).await });
        wait::until("it waits", LIMIT, || int(&server, &["LLEN", "tenure:w:k"]) == 1).unwrap();
        leaving.shutdown().await;
        wait::until("it left", LIMIT, || int(&server, &["LLEN", "tenure:w:k"]) == 0).unwrap();
        assert_eq!(int(&server, &["EXISTS", "k"]), 1, "round {round}");
    }
    assert_eq!(store.release(release(&mine)).await.unwrap(), Released::Released);
    let second = claim("k", "node-2");
    granted(&store, &second).await;
    let (waiter, mut parked) = (Arc::clone(&store), JoinSet::new());
    parked.spawn(async move { waiter.acquire(claim("k", "next").waiting(LIMIT)).await });
    wait::until("it waits", LIMIT, || int(&server, &["LLEN", "tenure:w:k"]) == 1).unwrap();
    assert_eq!(store.release(release(&second)).await.unwrap(), Released::Released);
    let grant = parked.join_next().await.unwrap().unwrap().unwrap();
    assert!(matches!(&grant, Acquired::Granted(g) if g.lease.holder.as_str() == "next"), "{grant:?}");
}

/// A server without RESP3, or a user without the permission.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_hello_is_refused_a_waiter_elsewhere_is_woken_all_the_same() {
    let server = RedisServer::start().unwrap();
    assert_eq!(text(&server, &["ACL", "SETUSER", "default", "-hello"]).as_deref(), Some("OK"));
    let (store, other) = (open(&server.url()).await, open(&server.url()).await);
    let mine = claim("k", "node-1");
    granted(&store, &mine).await;
    let mut parked = JoinSet::new();
    parked.spawn(async move { other.acquire(claim("k", "next").waiting(LIMIT)).await });
    wait::until("it waits", LIMIT, || int(&server, &["LLEN", "tenure:w:k"]) == 1).unwrap();
    assert_eq!(store.release(release(&mine)).await.unwrap(), Released::Released);
    let grant = parked.join_next().await.unwrap().unwrap().unwrap();
    assert!(matches!(&grant, Acquired::Granted(g) if g.lease.holder.as_str() == "next"), "{grant:?}");
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

//! Claims that wait in Redis, over processes that live and die.

use std::sync::Arc;

use lease::{Acquired, Leases};
use testkit::{RedisServer, wait};

use crate::redis_bench::{LIMIT, claim, granted, int, open, release};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_waiters_are_granted_in_the_order_they_came() {
    let server = RedisServer::start().unwrap();
    let stores = [Arc::new(open(&server.url()).await), Arc::new(open(&server.url()).await)];
    let mut holder = claim("k", "first");
    granted(&stores[0], &holder).await;
    let mut parked = Vec::new();
    for n in 0..50 {
        let claim = claim("k", &format!("w{n}")).waiting(LIMIT);
        let (store, asked) = (Arc::clone(&stores[n % 2]), claim.clone());
        parked.push((claim, tokio::spawn(async move { store.acquire(asked).await })));
        wait::until("it is parked", LIMIT, || int(&server, &["ZCARD", "tenure:w:k"]) == n as i64 + 1)
            .unwrap();
    }
    let mut last = None;
    for (claim, waiting) in parked {
        stores[0].release(release(&holder)).await.unwrap();
        match waiting.await.unwrap().unwrap() {
            Acquired::Granted(grant) => {
                assert!(grant.parked && Some(grant.lease.generation) > last);
                last = Some(grant.lease.generation);
            }
            Acquired::Busy(busy) => panic!("{} was overtaken: {busy:?}", claim.holder),
        }
        holder = claim;
    }
}

/// A process that died leaves its claims in the queue and nobody on its channel.
#[test]
fn a_waiter_whose_process_is_gone_is_skipped() {
    let server = RedisServer::start().unwrap();
    let (doomed, living) = (runtime(), runtime());
    let store = Arc::new(living.block_on(open(&server.url())));
    let mine = claim("k", "node-1");
    living.block_on(granted(&store, &mine));
    let gone = doomed.block_on(open(&server.url()));
    doomed.spawn(async move { gone.acquire(claim("k", "gone").waiting(LIMIT)).await });
    wait::until("the first is parked", LIMIT, || int(&server, &["ZCARD", "tenure:w:k"]) == 1).unwrap();
    let waiter = Arc::clone(&store);
    let next = living.spawn(async move { waiter.acquire(claim("k", "next").waiting(LIMIT)).await });
    wait::until("the second is parked", LIMIT, || int(&server, &["ZCARD", "tenure:w:k"]) == 2).unwrap();
    doomed.shutdown_background();
    wait::until("nobody listens for the first", LIMIT, || {
        let reply = server.command(&["PUBSUB", "CHANNELS", "tenure:c:*"]).unwrap();
        format!("{reply:?}").matches("tenure:c:").count() <= 1
    })
    .unwrap();
    living.block_on(store.release(release(&mine))).unwrap();
    let grant = living.block_on(next).unwrap().unwrap();
    assert!(matches!(&grant, Acquired::Granted(g) if g.lease.holder.as_str() == "next"), "{grant:?}");
    assert_eq!(int(&server, &["ZCARD", "tenure:w:k"]), 0);
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

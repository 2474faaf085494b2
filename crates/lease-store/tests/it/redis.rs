//! The Redis engine against the whole contract, on a server of each test's own.

use std::sync::Arc;

use lease_store::conformance::{World, suite};
use lease_store::{Redis, Store};
use testkit::RedisServer;

suite!(redis, redis_world, flavor = "multi_thread", worker_threads = 2);

/// A new server, and two engines with connections of their own.
async fn redis_world() -> World {
    let server = Arc::new(RedisServer::start().unwrap());
    let (first, second) = (open(&server).await, open(&server).await);
    World::new(first).with_second(second).over_network().keeping(server)
}

/// The server is known to be new.
async fn open(server: &RedisServer) -> Store {
    Store::new(Redis::open(&format!("{}?quarantine_ms=0", server.url())).await.unwrap())
}

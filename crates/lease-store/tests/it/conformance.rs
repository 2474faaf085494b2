//! Every engine against the whole contract; see `lease_store::conformance`.

use std::sync::Arc;

use lease_store::conformance::{World, restarts, suite};
use lease_store::{Local, Options, Redis, Store, TokioClock};
use tempfile::TempDir;
use testkit::{AppendFsync, RedisServer};

suite!(memory, memory_world, start_paused = true);
suite!(memory_in_real_time, threads_world, flavor = "multi_thread", worker_threads = 2);
suite!(embedded, embedded_world, flavor = "multi_thread", worker_threads = 2);
suite!(redis, redis_world, flavor = "multi_thread", worker_threads = 2);
restarts!(embedded_after_a_restart, embedded_world, flavor = "multi_thread", worker_threads = 2);
restarts!(redis_after_a_restart, lasting_redis_world, flavor = "multi_thread", worker_threads = 2);

/// Memory on paused time: hours pass at once.
async fn memory_world() -> World {
    let clock = Arc::new(TokioClock::default());
    let store = Store::new(Local::memory_on(clock.clone()));
    World::new(store).on_virtual_time().with_stall(move |time| clock.step(time))
}

/// Memory on the machine's clock, with several threads at once.
async fn threads_world() -> World {
    World::new(Store::new(Local::memory()))
}

/// A folder of its own for every test.
async fn embedded_world() -> World {
    let folder = Arc::new(TempDir::new().unwrap());
    let again = folder.clone();
    World::new(open(&folder).await)
        .with_restart(move || {
            let folder = again.clone();
            Box::pin(async move { open(&folder).await })
        })
        .keeping(folder)
}

async fn open(folder: &TempDir) -> Store {
    Store::new(Local::open(folder.path(), Options::default()).await.unwrap())
}

/// A new server, and two engines with connections of their own.
async fn redis_world() -> World {
    let server = Arc::new(RedisServer::start().unwrap());
    let (first, second) = (connect(&server).await, connect(&server).await);
    World::new(first).with_second(second).over_network().keeping(server)
}

/// A server that forgets nothing when it is killed.
async fn lasting_redis_world() -> World {
    let server = Arc::new(RedisServer::builder().appendonly(AppendFsync::Always).start().unwrap());
    let again = server.clone();
    World::new(connect(&server).await)
        .with_restart(move || {
            let server = again.clone();
            Box::pin(async move {
                server.restart().unwrap();
                connect(&server).await
            })
        })
        .over_network()
        .keeping(server)
}

/// The server is known to have lost nothing.
async fn connect(server: &RedisServer) -> Store {
    Store::new(Redis::open(&format!("{}?quarantine_ms=0", server.url())).await.unwrap())
}

//! Every engine against the whole contract; see `tenure_store::conformance`.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::TempDir;
use tenure_lease::{Capabilities, Clock, Durability, Limits, Ttl, Wakeup};
use tenure_store::conformance::{
    Harness, crashes, lost_replies, quarantines, restarts, stall_runtime, suite,
};
use tenure_store::{BootClock, Local, Options, Redis, Store, TokioClock};
use tenure_testkit::{AppendFsync, Direction, Mode, Proxy, RedisServer};

use crate::forgetful_storage::{ForgetfulStorage, Power, Stalled};

suite!(memory, memory_harness, start_paused = true);
suite!(memory_in_real_time, threads_harness, flavor = "multi_thread", worker_threads = 2);
suite!(embedded, embedded_harness, flavor = "multi_thread", worker_threads = 2);
suite!(redis, redis_harness, flavor = "multi_thread", worker_threads = 2);
restarts!(embedded_after_a_restart, embedded_harness, flavor = "multi_thread", worker_threads = 2);
restarts!(redis_after_a_restart, lasting_redis_world, flavor = "multi_thread", worker_threads = 2);
crashes!(embedded_after_a_crash, embedded_harness, flavor = "multi_thread", worker_threads = 2);
crashes!(redis_after_a_crash, lasting_redis_world, flavor = "multi_thread", worker_threads = 2);
lost_replies!(redis_without_replies, silent_redis, flavor = "multi_thread", worker_threads = 2);
quarantines!(redis_in_quarantine, quarantined_redis, flavor = "multi_thread", worker_threads = 2);

/// The threads of the runtime of a test.
const WORKERS: usize = 2;

const LIMITS: Limits = Limits { commit_operations: 64, commit_bytes: 4 << 20, wiped_leases: 10_000 };

/// What the contract demands of an engine in process.
fn in_process(engine: &'static str, durability: Durability) -> Capabilities {
    Capabilities {
        engine,
        dies_with_process: true,
        min_ttl: Ttl::from_millis(250).unwrap(),
        max_ttl: Ttl::MAX,
        ttl_step: Duration::from_millis(1),
        expiry_lag: Duration::from_millis(50),
        failover: Duration::ZERO,
        durability,
        limits: LIMITS,
        wakes_waiters: Wakeup::Push,
        shared_keys: false,
        proof_of_death: false,
    }
}

/// Memory on paused time: hours pass at once.
async fn memory_harness() -> Harness {
    let clock = Arc::new(TokioClock::default());
    let store = Store::new(Local::memory_on(clock.clone()));
    Harness::new(store)
        .with_contract(in_process("memory", Durability::Volatile))
        .on_virtual_time()
        .with_stall(move |time| {
            clock.step(time);
            Box::pin(std::future::ready(()))
        })
}

/// Memory on the machine's clock, with several threads at once.
async fn threads_harness() -> Harness {
    Harness::new(Store::new(Local::memory()))
        .with_contract(in_process("memory", Durability::Volatile))
        .with_stall(|time| Box::pin(stall_runtime(WORKERS, time)))
}

/// A folder of its own for every test, on a disk that can stand still and that forgets what was not synced whenever
/// the store is closed.
async fn embedded_harness() -> Harness {
    let folder = Arc::new(TempDir::new().unwrap());
    let (stalled, first) = (Stalled::default(), Power::default());
    let store = open(&folder, &stalled, &first).await;
    // The power of the store that is open.
    let power = Arc::new(Mutex::new(first));
    let (again, disk, on) = (folder.clone(), stalled.clone(), power.clone());
    Harness::new(store)
        .with_contract(in_process("embedded", Durability::Synced))
        .with_stall(move |time| {
            let stalled = stalled.clone();
            Box::pin(async move {
                let stalled = stalled.begin();
                let clock = BootClock;
                clock.sleep_until(clock.now() + time).await;
                drop(stalled);
            })
        })
        .with_restart(move || {
            let (folder, disk, power) = (again.clone(), disk.clone(), Power::default());
            *on.lock() = power.clone();
            Box::pin(async move { open(&folder, &disk, &power).await })
        })
        .with_crash(move || power.lock().cut())
        .keeping(folder)
}

async fn open(folder: &TempDir, stalled: &Stalled, power: &Power) -> Store {
    let storage = ForgetfulStorage::new(folder.path(), stalled, power);
    Store::new(Local::open_on(Arc::new(storage), Options::default(), None).await.unwrap())
}

/// A new server, and two engines with connections of their own.
async fn redis_harness() -> Harness {
    let server = Arc::new(RedisServer::start().unwrap());
    let (first, second) = (connect(&server).await, connect(&server).await);
    let stalled = server.clone();
    let contract = Capabilities {
        engine: "redis",
        dies_with_process: false,
        min_ttl: Ttl::from_millis(500).unwrap(),
        max_ttl: Ttl::from_millis(30_000).unwrap(),
        ttl_step: Duration::from_millis(1),
        expiry_lag: Duration::from_secs(2),
        failover: Duration::ZERO,
        durability: Durability::ServerPersistence,
        limits: LIMITS,
        wakes_waiters: Wakeup::Push,
        shared_keys: true,
        proof_of_death: true,
    };
    Harness::new(first)
        .with_second(second)
        .with_contract(contract)
        .with_stall(move |time| {
            let server = stalled.clone();
            Box::pin(async move {
                server.pause().unwrap();
                let clock = BootClock;
                clock.sleep_until(clock.now() + time).await;
                server.resume().unwrap();
            })
        })
        .over_network()
        .keeping(server)
}

/// A server that forgets nothing when it is killed.
async fn lasting_redis_world() -> Harness {
    restarting_redis("quarantine_ms=0", "quarantine_ms=0").await
}

/// A server behind a proxy that loses replies.
async fn silent_redis() -> Harness {
    let server = RedisServer::start().unwrap();
    let proxy = Arc::new(Proxy::start(server.addr()).unwrap());
    let url = format!("{}?op_timeout_ms=500&quarantine_ms=0", proxy.url_for_redis());
    let (store, losing) = (Redis::open(&url).await.unwrap(), proxy.clone());
    Harness::new(Store::new(store))
        .with_lost_replies(move |lost| {
            losing.set(Direction::ToClient, if lost { Mode::Stall } else { Mode::Pass });
        })
        .over_network()
        .keeping((server, proxy))
}

/// A server whose restart begins a quarantine. It lasts as long as the longest TTL.
async fn quarantined_redis() -> Harness {
    restarting_redis("max_ttl_ms=5000&quarantine_ms=0", "max_ttl_ms=5000").await
}

/// A server that is opened with these settings before and after it was killed.
async fn restarting_redis(before: &str, after: &'static str) -> Harness {
    let server = Arc::new(RedisServer::builder().appendonly(AppendFsync::Always).start().unwrap());
    let (again, killed) = (server.clone(), server.clone());
    Harness::new(connect_with(&server, before).await)
        .with_restart(move || {
            let server = again.clone();
            Box::pin(async move {
                server.restart().unwrap();
                connect_with(&server, after).await
            })
        })
        .with_crash(move || killed.kill9().unwrap())
        .over_network()
        .keeping(server)
}

/// The server is known to have lost nothing.
async fn connect(server: &RedisServer) -> Store {
    connect_with(server, "quarantine_ms=0").await
}

async fn connect_with(server: &RedisServer, settings: &str) -> Store {
    Store::new(Redis::open(&format!("{}?{settings}", server.url())).await.unwrap())
}

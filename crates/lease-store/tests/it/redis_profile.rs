//! How a Redis server must be run to keep leases.

use std::time::Duration;

use tenure_lease::{Error, Leases};
use tenure_store::Redis;
use tenure_testkit::{AppendFsync, RedisServer, wait};

use crate::redis_fixture::{LIMIT, claim, granted, open};

fn set(server: &RedisServer, setting: &str, value: &str) {
    server.command(&["CONFIG", "SET", setting, value]).unwrap();
}

#[tokio::test]
async fn a_server_that_may_delete_leases_is_refused_unless_that_is_accepted() {
    let server = RedisServer::builder().config("maxmemory-policy", "volatile-lru").start().unwrap();
    let refused = Redis::open(&server.url()).await.unwrap_err();
    assert!(matches!(refused, Error::Invalid { what: "store", .. }), "{refused:?}");
    let refused = refused.to_string();
    for part in ["maxmemory-policy is volatile-lru", "noeviction", "?allow_eviction=true"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    let url = format!("{}?allow_eviction=true&quarantine_ms=0", server.url());
    let store = Redis::open(&url).await.unwrap();
    granted(&store, &claim("k", "node-1")).await;
    let warnings = store.warnings();
    assert!(
        warnings.iter().any(|warning| warning.contains("maxmemory-policy is volatile-lru")),
        "{warnings:?}"
    );
}

#[tokio::test]
async fn a_server_that_saves_nothing_is_taken_and_named() {
    let forgets = RedisServer::start().unwrap();
    let warnings = open(&forgets.url()).await.warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("saves nothing to disk"), "{warnings:?}");
    let keeps = RedisServer::builder().appendonly(AppendFsync::Always).start().unwrap();
    assert_eq!(open(&keeps.url()).await.warnings(), Vec::<String>::new());
    let snapshots = RedisServer::builder().config("save", "3600 1").start().unwrap();
    assert_eq!(open(&snapshots.url()).await.warnings(), Vec::<String>::new());
}

#[tokio::test]
async fn a_user_who_may_not_read_settings_is_told_that_persistence_is_unknown() {
    let server = RedisServer::builder().appendonly(AppendFsync::Always).start().unwrap();
    set(&server, "appendonly", "no");
    server.command(&["ACL", "SETUSER", "default", "-config"]).unwrap();
    let warnings = open(&server.url()).await.warnings();
    assert!(warnings.len() == 1 && warnings[0].contains("does not say"), "{warnings:?}");
}

#[tokio::test]
async fn a_policy_that_is_changed_at_run_time_stops_the_engine_until_it_is_changed_back() {
    let server = RedisServer::start().unwrap();
    let store = open(&server.url()).await;
    granted(&store, &claim("before", "node-1")).await;
    set(&server, "maxmemory-policy", "allkeys-lru");
    let refused = async || match store.acquire(claim("k", "node-1")).await {
        Err(Error::Unavailable { why, .. }) => why.contains("maxmemory-policy is allkeys-lru"),
        _ => false,
    };
    wait::until_async("it is noticed", LIMIT, refused).await.unwrap();
    set(&server, "maxmemory-policy", "noeviction");
    let granted = async || store.acquire(claim("k", "node-1")).await.is_ok();
    wait::until_async("it goes on", LIMIT, granted).await.unwrap();
}

#[tokio::test]
async fn a_policy_is_read_again_with_every_connection() {
    let server = RedisServer::start().unwrap();
    let url = format!("{}?quarantine_ms=0&op_timeout_ms=5000", server.url());
    let store = Redis::open(&url).await.unwrap();
    granted(&store, &claim("before", "node-1")).await;
    set(&server, "maxmemory-policy", "volatile-ttl");
    server.command(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap();
    let start = tenure_lease::Clock::now(&tenure_store::BootClock);
    let mut refused = store.acquire(claim("k", "node-1")).await;
    if !matches!(&refused, Err(Error::Unavailable { .. })) {
        refused = store.acquire(claim("k", "node-2")).await;
    }
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("maxmemory-policy is volatile-ttl"), "{error}");
    let took = tenure_lease::Clock::now(&tenure_store::BootClock).since(start);
    assert!(took < Duration::from_secs(5), "a refusal is no time-out");
}

//! Discovery of what other programs wrote: cached for prefixes that are discovered often, with the results of a scan.

use tenure_lease::{Leases, Op, Prefix, Record, Records};
use tenure_store::Redis;
use tenure_testkit::{RedisServer, wait};

use crate::redis_fixture::{LIMIT, claim, granted, int, key, release, text};

const UNDER: &str = "session:";

/// An engine with a long timeout, for slow machines.
async fn open(url: &str) -> Redis {
    Redis::open(&format!("{url}?quarantine_ms=0&op_timeout_ms=20000")).await.unwrap()
}

async fn found(store: &Redis) -> Vec<Record> {
    store.discover(&Prefix::new(UNDER).unwrap()).await.unwrap()
}

fn names(records: &[Record]) -> Vec<&str> {
    records.iter().map(|record| record.key.as_str().strip_prefix(UNDER).unwrap()).collect()
}

/// What a scan finds: a new engine has nothing in its cache.
async fn scanned(server: &RedisServer) -> Vec<Record> {
    found(&open(&server.url()).await).await
}

fn set(server: &RedisServer, name: &str, value: &str) {
    assert!(!server.command(&["SET", &format!("{UNDER}{name}"), value]).unwrap().is_error());
}

/// How many SCAN commands the server has run.
fn scans(server: &RedisServer) -> u64 {
    let stats = text(server, &["INFO", "commandstats"]).unwrap();
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_scan:calls="));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

fn tracking_clients(server: &RedisServer) -> i64 {
    let info = text(server, &["INFO", "clients"]).unwrap();
    info.lines().find_map(|line| line.strip_prefix("tracking_clients:")).unwrap().trim().parse().unwrap()
}

/// An engine that tracks the prefix, with `a` and `b` under it.
async fn tracking(server: &RedisServer) -> Redis {
    let store = open(&server.url()).await;
    set(server, "a", "1");
    set(server, "b", "1");
    assert_eq!(
        (names(&found(&store).await), tracking_clients(server)),
        (vec!["a", "b"], 0),
        "discovered once"
    );
    assert_eq!((names(&found(&store).await), tracking_clients(server)), (vec!["a", "b"], 1));
    store
}

#[tokio::test]
async fn a_prefix_that_is_discovered_often_is_tracked_and_shows_what_a_scan_shows() {
    let server = RedisServer::start().unwrap();
    let store = tracking(&server).await;
    let put = |name: &str| Op::Put { key: key(name), value: b"ours"[..].into(), ttl: None };
    let mut steps = 0;
    let mut check = async |expected: &[&str]| {
        let before = scans(&server);
        let records = found(&store).await;
        assert_eq!(scans(&server), before, "no key is scanned");
        assert_eq!(names(&records), expected);
        assert_eq!(records, scanned(&server).await);
        steps += 1;
    };
    check(&["a", "b"]).await;
    set(&server, "c", "1");
    set(&server, "a", "2");
    set(&server, "d/e", "1");
    server.command(&["SET", "sessions", "not under it"]).unwrap();
    check(&["a", "b", "c", "d/e"]).await;
    int(&server, &["DEL", "session:b"]);
    server.command(&["RENAME", "session:c", "session:z"]).unwrap();
    check(&["a", "d/e", "z"]).await;
    store.commit(&[put("session:ours"), put("session:a")]).await.unwrap();
    check(&["a", "d/e", "ours", "z"]).await;
    store.commit(&[Op::Delete { key: key("session:ours") }]).await.unwrap();
    let held = claim("session:held", "node-1");
    granted(&store, &held).await;
    check(&["a", "d/e", "z"]).await;
    store.release(release(&held)).await.unwrap();
    set(&server, "held", "a record now");
    int(&server, &["DEL", "session:z"]);
    int(&server, &["RPUSH", "session:z", "no string"]);
    check(&["a", "d/e", "held"]).await;
    assert_eq!(steps, 6);
}

#[tokio::test]
async fn an_expired_key_is_not_shown_before_the_server_has_removed_it() {
    let server = RedisServer::builder().config("enable-debug-command", "yes").start().unwrap();
    // Otherwise the server would report it by itself, sooner or later.
    server.command(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]).unwrap();
    let store = tracking(&server).await;
    server.command(&["SET", "session:brief", "1", "PX", "300"]).unwrap();
    int(&server, &["PEXPIRE", "session:a", "300"]);
    wait::until_async("both are gone", LIMIT, async || names(&found(&store).await) == ["b"]).await.unwrap();
    assert_eq!(tracking_clients(&server), 1, "it is tracked all the time");
    server.command(&["SET", "session:brief", "1", "PX", "600000"]).unwrap();
    int(&server, &["PERSIST", "session:brief"]);
    assert_eq!(names(&found(&store).await), ["b", "brief"]);
}

#[tokio::test]
async fn a_flush_is_noticed() {
    let server = RedisServer::start().unwrap();
    let store = tracking(&server).await;
    server.flushall().unwrap();
    assert_eq!(found(&store).await, []);
    set(&server, "c", "1");
    assert_eq!((names(&found(&store).await), tracking_clients(&server)), (vec!["c"], 1));
}

#[tokio::test]
async fn nothing_is_missed_over_lost_connections_and_lost_servers() {
    let server = RedisServer::start().unwrap();
    let store = tracking(&server).await;
    assert!(int(&server, &["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]) > 0);
    set(&server, "c", "1");
    int(&server, &["DEL", "session:a"]);
    assert_eq!((names(&found(&store).await), tracking_clients(&server)), (vec!["b", "c"], 1));
    server.restart_empty().unwrap();
    set(&server, "d", "1");
    assert_eq!((names(&found(&store).await), tracking_clients(&server)), (vec!["d"], 1));
}

#[tokio::test]
async fn a_dropped_discovery_loses_no_change() {
    let server = RedisServer::start().unwrap();
    let store = tracking(&server).await;
    for name in ["c", "d", "e"] {
        set(&server, name, "1");
        tokio::select! {
            biased;
            _ = found(&store) => {}
            () = std::future::ready(()) => {}
        }
    }
    assert_eq!(names(&found(&store).await), ["a", "b", "c", "d", "e"]);
}

#[tokio::test]
async fn without_the_permission_to_track_every_discovery_is_a_scan() {
    let server = RedisServer::start().unwrap();
    let user = ["ACL", "SETUSER", "poor", "on", ">secret", "~*", "&*", "+@all", "-client|tracking"];
    assert!(!server.command(&user).unwrap().is_error());
    let store = open(&format!("redis://poor:secret@{}", server.addr())).await;
    for (i, name) in ["a", "b", "c"].into_iter().enumerate() {
        set(&server, name, "1");
        let before = scans(&server);
        assert_eq!(found(&store).await.len(), i + 1);
        assert!(scans(&server) > before);
    }
    assert_eq!(tracking_clients(&server), 0);
}

//! Real Redis.

use std::fs;
use std::net::TcpStream;
use std::time::Duration;

use tenure_testkit::{AppendFsync, RedisServer, Reply, RespClient, SmallDisk, wait};

use crate::{LIMIT, MOMENT};

fn get(server: &RedisServer, key: &str) -> Option<String> {
    server.command(&["GET", key]).unwrap().text().map(str::to_owned)
}

fn set(server: &RedisServer, key: &str, value: &str) {
    assert_eq!(server.command(&["SET", key, value]).unwrap(), Reply::Status("OK".into()));
}

#[test]
fn a_started_server_answers_every_kind_of_command() {
    let redis = RedisServer::start().unwrap();
    assert_eq!(redis.url(), format!("redis://127.0.0.1:{}", redis.port()));
    let mut client = redis.client().unwrap();
    assert_eq!(client.command(&["PING"]).unwrap(), Reply::Status("PONG".into()));
    assert_eq!(client.command(&["INCR", "n"]).unwrap().int(), Some(1));
    assert_eq!(client.command(&["GET", "none"]).unwrap(), Reply::Bulk(None));
    assert!(client.command(&["NOSUCH"]).unwrap().is_error());
    let time = client.command(&["TIME"]).unwrap();
    assert!(matches!(time, Reply::Array(Some(parts)) if parts.len() == 2));
    assert_eq!(client.command(&[b"SET".as_slice(), b"\xff\0", b"\r\n"]).unwrap().text(), Some("OK"));
    assert_eq!(client.command(&[b"GET".as_slice(), b"\xff\0"]).unwrap(), Reply::Bulk(Some(b"\r\n".to_vec())));
}

#[test]
fn a_server_without_persistence_forgets_over_a_restart() {
    let redis = RedisServer::start().unwrap();
    set(&redis, "k", "v");
    let (port, pid) = (redis.port(), redis.pid());
    redis.restart().unwrap();
    assert_eq!(get(&redis, "k"), None);
    assert_eq!(redis.port(), port);
    assert_ne!(redis.pid(), pid);
}

#[test]
fn an_append_only_server_remembers_over_a_kill_until_it_is_restarted_empty() {
    for fsync in [AppendFsync::Always, AppendFsync::No] {
        let redis = RedisServer::builder().appendonly(fsync).start().unwrap();
        set(&redis, "k", "v");
        redis.kill9().unwrap();
        assert!(TcpStream::connect(redis.addr()).is_err());
        redis.restart().unwrap();
        assert_eq!(get(&redis, "k").as_deref(), Some("v"), "{fsync:?}");
        redis.restart_empty().unwrap();
        assert_eq!(get(&redis, "k"), None, "{fsync:?}");
    }
}

#[test]
fn restarting_empty_removes_only_what_redis_wrote() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("mine"), "").unwrap();
    let redis = RedisServer::builder().dir(dir.path()).config("dbfilename", "my.rdb").start().unwrap();
    set(&redis, "k", "v");
    assert_eq!(redis.command(&["SAVE"]).unwrap().text(), Some("OK"));
    assert!(dir.path().join("my.rdb").exists());
    redis.restart().unwrap();
    assert_eq!(get(&redis, "k").as_deref(), Some("v"));
    redis.restart_empty().unwrap();
    assert_eq!(get(&redis, "k"), None);
    assert!(dir.path().join("mine").exists());
    drop(redis);
    assert!(dir.path().join("mine").exists());
}

#[test]
fn a_paused_server_answers_only_after_it_is_resumed() {
    let redis = RedisServer::start().unwrap();
    let mut client = RespClient::connect_within(redis.addr(), MOMENT).unwrap();
    redis.pause().unwrap();
    client.send(&["INCR", "n"]).unwrap();
    assert!(client.receive().is_err());
    client.set_limit(LIMIT).unwrap();
    redis.resume().unwrap();
    assert_eq!(client.receive().unwrap(), Reply::Int(1));
}

#[test]
fn a_replica_follows_and_once_promoted_stays_a_primary_over_a_restart() {
    let primary = RedisServer::start().unwrap();
    let replica = RedisServer::builder().replica_of(&primary).start().unwrap();
    replica.wait_for_sync(LIMIT).unwrap();
    let mut client = primary.client().unwrap();
    client.command(&["SET", "k", "v"]).unwrap();
    assert_eq!(client.command(&["WAIT", "1", "4000"]).unwrap(), Reply::Int(1));
    assert_eq!(get(&replica, "k").as_deref(), Some("v"));
    assert!(replica.command(&["SET", "k", "w"]).unwrap().is_error());

    primary.kill9().unwrap();
    replica.promote().unwrap();
    set(&replica, "k", "w");
    replica.restart().unwrap();
    set(&replica, "k", "x");

    primary.restart().unwrap();
    primary.follow(&replica).unwrap();
    primary.wait_for_sync(LIMIT).unwrap();
    assert_eq!(get(&primary, "k").as_deref(), Some("x"));
}

#[test]
fn a_replica_starts_while_its_primary_is_dead() {
    let primary = RedisServer::start().unwrap();
    primary.kill9().unwrap();
    let replica = RedisServer::builder().replica_of(&primary).start().unwrap();
    assert!(replica.wait_for_sync(Duration::ZERO).is_err());
    primary.restart().unwrap();
    replica.wait_for_sync(LIMIT).unwrap();
}

#[test]
fn flushing_deletes_every_key() {
    let redis = RedisServer::start().unwrap();
    set(&redis, "k", "v");
    redis.flushall().unwrap();
    assert_eq!(redis.command(&["DBSIZE"]).unwrap(), Reply::Int(0));
}

#[test]
fn a_server_with_a_password_starts_too() {
    let redis = RedisServer::builder().config("requirepass", "secret").start().unwrap();
    let mut client = redis.client().unwrap();
    assert!(client.command(&["GET", "k"]).unwrap().is_error());
    assert_eq!(client.command(&["AUTH", "secret"]).unwrap().text(), Some("OK"));
}

#[test]
fn a_wrong_setting_is_reported_with_what_redis_said() {
    let error = RedisServer::builder().config("no-such-setting", "1").start().err().unwrap().to_string();
    assert!(error.contains("no-such-setting"), "{error}");
}

#[test]
fn a_server_on_a_full_disk_refuses_to_write_until_there_is_room() {
    let disk = SmallDisk::mount(4 * 1024 * 1024).unwrap();
    let redis = RedisServer::builder().dir(disk.path()).appendonly(AppendFsync::EverySec).start().unwrap();
    set(&redis, "k", "v");
    disk.fill().unwrap();
    // Longer than what is left of the file's last page, which a full disk does not take away.
    let long = "x".repeat(16 * 1024);
    let mut client = redis.client().unwrap();
    let mut refused = || client.command(&["SET", "long", &long]).unwrap().is_error();
    wait::until("Redis refuses to write", LIMIT, &mut refused).unwrap();
    disk.free().unwrap();
    wait::until("Redis writes again", LIMIT, || !refused()).unwrap();
}

#[tokio::test]
async fn a_dropped_server_is_gone_at_once_also_inside_a_runtime() {
    let redis = RedisServer::start().unwrap();
    let (addr, dir) = (redis.addr(), redis.dir().to_owned());
    drop(redis);
    assert!(TcpStream::connect(addr).is_err());
    assert!(!dir.exists());
}

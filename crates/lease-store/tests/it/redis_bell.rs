//! The connection on which parked claims hear that they were granted.

use std::sync::Arc;
use std::time::Duration;

use lease_store::Redis;
use testkit::{Direction, Mode, Proxy, RedisServer, Reply, wait};

use crate::redis_bench::{Bent, LIMIT, text};

/// How many engines the server would tell.
fn listening(server: &RedisServer) -> usize {
    match server.command(&["PUBSUB", "CHANNELS", "tenure:c:*"]).unwrap() {
        Reply::Array(Some(channels)) => channels.len(),
        other => panic!("{other:?}"),
    }
}

/// As behind a firewall that forgot the connection: nobody says that it is gone.
async fn a_silent_connection_is_given_up(server: RedisServer) {
    let proxy = Proxy::start(server.addr()).unwrap();
    let url = format!("{}?quarantine_ms=0&op_timeout_ms=300", proxy.url_for_redis());
    let soon = Some(Duration::from_millis(50));
    let _store = Redis::open_with(&url, Arc::new(Bent(soon))).await.unwrap();
    wait::until_async("it listens", LIMIT, async || listening(&server) == 1).await.unwrap();
    proxy.set(Direction::ToClient, Mode::Drop);
    wait::until_async("it gave up", LIMIT, async || listening(&server) == 0).await.unwrap();
    proxy.cut().unwrap();
    proxy.set(Direction::ToClient, Mode::Pass);
    wait::until_async("it listens again", LIMIT, async || listening(&server) == 1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wake_ups_that_went_silent_are_asked_for_again() {
    a_silent_connection_is_given_up(RedisServer::start().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_are_those_of_a_server_that_does_not_speak_first() {
    let server = RedisServer::start().unwrap();
    assert_eq!(text(&server, &["ACL", "SETUSER", "default", "-hello"]).as_deref(), Some("OK"));
    a_silent_connection_is_given_up(server).await;
}

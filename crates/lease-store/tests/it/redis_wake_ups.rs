//! The connection on which waiting claims are woken.

use std::sync::Arc;
use std::time::Duration;

use tenure_store::Redis;
use tenure_testkit::{Direction, Mode, Proxy, RedisServer, Reply, wait};

use crate::redis_fixture::{BentClock, LIMIT, text};

/// How many engines are subscribed.
fn listening(server: &RedisServer) -> usize {
    match server.command(&["PUBSUB", "CHANNELS", "tenure:c:*"]).unwrap() {
        Reply::Array(Some(channels)) => channels.len(),
        other => panic!("{other:?}"),
    }
}

/// As behind a firewall that dropped the connection: neither side is notified.
async fn a_silent_connection_is_given_up(server: RedisServer) {
    let proxy = Proxy::start(server.addr()).unwrap();
    let url = format!("{}?quarantine_ms=0&op_timeout_ms=300", proxy.url_for_redis());
    let soon = Some(Duration::from_millis(50));
    let _store = Redis::open_with(&url, Arc::new(BentClock(soon))).await.unwrap();
    wait::until_async("it listens", LIMIT, async || listening(&server) == 1).await.unwrap();
    proxy.set(Direction::ToClient, Mode::Drop);
    wait::until_async("it gave up", LIMIT, async || listening(&server) == 0).await.unwrap();
    proxy.cut().unwrap();
    proxy.set(Direction::ToClient, Mode::Pass);
    wait::until_async("it listens again", LIMIT, async || listening(&server) == 1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_connection_for_wake_ups_is_replaced() {
    a_silent_connection_is_given_up(RedisServer::start().unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_connection_over_resp2_is_replaced() {
    let server = RedisServer::start().unwrap();
    assert_eq!(text(&server, &["ACL", "SETUSER", "default", "-hello"]).as_deref(), Some("OK"));
    a_silent_connection_is_given_up(server).await;
}

//! A shutdown lets requests finish, for a while.

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::support::{Running, start};

struct Hold {
    begun: Arc<Notify>,
    go_on: Arc<Notify>,
}

/// A server whose `/hold` says when it began and waits to be let go on.
async fn holding(change: impl FnOnce(&mut tenure_service::Settings)) -> (Running, Hold) {
    let hold = Hold { begun: Arc::default(), go_on: Arc::default() };
    let (begun, go_on) = (hold.begun.clone(), hold.go_on.clone());
    let router = Router::new().route("/", get(|| async { "hello" })).route(
        "/hold",
        get(move || async move {
            begun.notify_one();
            go_on.notified().await;
            "finished"
        }),
    );
    (start(change, router).await, hold)
}

#[tokio::test]
async fn a_request_under_way_is_finished_and_new_clients_are_refused() {
    let (mut server, hold) = holding(|_| {}).await;
    let mut wire = server.connect().await;
    wire.write("GET /hold HTTP/1.1\r\nhost: t\r\n\r\n").await;
    hold.begun.notified().await;
    server.shutdown.trigger();
    while TcpStream::connect(server.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    hold.go_on.notify_one();
    let reply = wire.reply().await;
    assert_eq!((reply.status, reply.body.as_str()), (200, "finished"));
    server.ended().await;
}

#[tokio::test]
async fn an_idle_connection_is_closed_at_the_shutdown() {
    let (mut server, _) = holding(|_| {}).await;
    let mut wire = server.connect().await;
    wire.write("GET / HTTP/1.1\r\nhost: t\r\n\r\n").await;
    assert_eq!(wire.next().await.status, 200);
    server.shutdown.trigger();
    assert_eq!(wire.rest().await, "");
    server.ended().await;
}

#[tokio::test]
async fn a_request_that_does_not_finish_is_cut_off() {
    let (mut server, hold) = holding(|settings| settings.limits.drain_timeout_ms = 100).await;
    let mut wire = server.connect().await;
    wire.write("GET /hold HTTP/1.1\r\nhost: t\r\n\r\n").await;
    hold.begun.notified().await;
    server.shutdown.trigger();
    server.ended().await;
    assert_eq!(wire.rest().await, "");
}

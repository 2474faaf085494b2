//! Limits on what a client can make the server hold.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::routing::{get, post};
use futures_util::stream;
use tenure_service::Json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use crate::support::{Running, moment, soon, start};

fn echo() -> Router {
    Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/body", post(|Json(body): Json<serde_json::Value>| async move { body.to_string() }))
}

const PLAIN: &str = "GET / HTTP/1.1\r\nhost: t\r\n\r\n";

#[tokio::test]
async fn oversized_headers_are_refused() {
    let server = start(|settings| settings.limits.max_header_bytes = 8_192, echo()).await;
    let mut wire = server.connect().await;
    wire.write(&format!("GET / HTTP/1.1\r\nhost: t\r\nx: {}\r\n\r\n", "a".repeat(10_000))).await;
    assert_eq!(wire.reply().await.status, 431);
    let reply = server.send(&format!("GET / HTTP/1.1\r\nx: {}", "a".repeat(4_000)), "").await;
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn headers_that_take_too_long_end_the_connection() {
    let server = start(|settings| settings.limits.header_timeout_ms = 100, echo()).await;
    let mut wire = server.connect().await;
    wire.write("GET / HTTP/1.1\r\nhost:").await;
    assert_eq!(wire.rest().await, "");
    let mut wire = server.connect().await;
    wire.write(PLAIN).await;
    assert_eq!(wire.next().await.body, "hello");
    wire.write("GET / HT").await;
    assert_eq!(wire.rest().await, "", "a later request is no different");
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let server = start(|settings| settings.limits.idle_timeout_ms = 100, echo()).await;
    let mut silent = server.connect().await;
    assert_eq!(silent.rest().await, "");
    let mut wire = server.connect().await;
    wire.write(PLAIN).await;
    assert_eq!(wire.next().await.body, "hello");
    assert_eq!(wire.rest().await, "");
}

#[tokio::test]
async fn a_body_that_takes_too_long_is_a_408() {
    let server = start(|settings| settings.limits.body_timeout_ms = 100, echo()).await;
    let mut wire = server.connect().await;
    wire.write(
        "POST /body HTTP/1.1\r\nhost: t\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{\"a\"",
    )
    .await;
    let reply = wire.reply().await;
    assert_eq!((reply.status, reply.code().as_str()), (408, "REQUEST_TIMEOUT"));
    assert_eq!(reply.problem()["limitMs"], 100);
}

#[tokio::test]
async fn a_connection_over_the_limit_gets_a_503_and_a_free_slot_is_reused() {
    let server = start(|settings| settings.limits.max_connections = 2, echo()).await;
    let mut wires = Vec::new();
    for _ in 0..2 {
        let mut wire = server.connect().await;
        wire.write(PLAIN).await;
        assert_eq!(wire.next().await.status, 200);
        wires.push(wire);
    }
    let mut third = server.connect().await;
    third.write(PLAIN).await;
    let reply = third.reply().await;
    assert_eq!((reply.status, reply.code().as_str()), (503, "UNAVAILABLE"));
    assert_eq!(reply.header("retry-after"), Some("1"));
    wires.pop();
    // The server learns of the closed connection in its own time.
    soon(async { while server.send("GET / HTTP/1.1", "").await.status != 200 {} }).await;
    let mut first = wires.pop().unwrap();
    first.write(PLAIN).await;
    assert_eq!(first.next().await.status, 200, "those who were there are served on");
}

/// Tells when it is dropped.
struct Dropped(Arc<Notify>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

async fn forever(State(dropped): State<Arc<Notify>>) -> Body {
    let guard = Dropped(dropped);
    Body::from_stream(stream::repeat_with(move || {
        let _held = &guard;
        Ok::<_, std::io::Error>(Bytes::from_static(&[b'x'; 16_384]))
    }))
}

async fn wait(State(dropped): State<Arc<Notify>>) -> &'static str {
    let _guard = Dropped(dropped);
    std::future::pending().await
}

async fn watched(change: impl FnOnce(&mut tenure_service::Settings)) -> (Running, Arc<Notify>) {
    let dropped = Arc::new(Notify::new());
    let router = Router::new().route("/forever", get(forever)).route("/wait", get(wait));
    (start(change, router.with_state(dropped.clone())).await, dropped)
}

#[tokio::test]
async fn a_client_that_does_not_read_is_dropped() {
    let (server, dropped) = watched(|settings| settings.limits.idle_timeout_ms = 200).await;
    let mut wire = server.connect().await;
    wire.write("GET /forever HTTP/1.1\r\nhost: t\r\n\r\n").await;
    soon(dropped.notified()).await;
}

#[tokio::test]
async fn work_for_a_client_that_went_away_is_cancelled() {
    let (server, dropped) = watched(|_| {}).await;
    let mut wire = server.connect().await;
    wire.write("GET /wait HTTP/1.1\r\nhost: t\r\n\r\n").await;
    drop(wire);
    soon(dropped.notified()).await;
}

#[tokio::test]
async fn an_idle_http_2_connection_is_closed() {
    let server = start(|settings| settings.limits.idle_timeout_ms = 100, echo()).await;
    let mut wire = server.connect().await;
    // The preface and an empty SETTINGS frame.
    wire.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    wire.rest().await;
}

#[tokio::test]
async fn a_body_that_claims_to_be_grpc_has_the_same_limit_for_extractors() {
    let router = Router::new().route("/bytes", post(|body: Bytes| async move { body.len().to_string() }));
    let server = start(|settings| settings.limits.max_body_bytes = 1_024, router).await;
    let reply =
        server.send("POST /bytes HTTP/1.1\r\ncontent-type: application/grpc", &"x".repeat(2_000)).await;
    assert_eq!(reply.header("tenure-code"), Some("BODY_TOO_LARGE"), "{reply:?}");
}

#[tokio::test]
async fn hundreds_of_idle_connections_do_not_block_active_ones() {
    let server = start(|settings| settings.limits.max_connections = 200, echo()).await;
    let mut busy = server.connect().await;
    busy.write(PLAIN).await;
    assert_eq!(busy.next().await.status, 200);
    let mut idle = Vec::new();
    for _ in 0..400 {
        idle.push(server.connect().await);
    }
    let refused = soon(idle.last_mut().unwrap().rest()).await;
    assert!(refused.is_empty() || refused.starts_with("HTTP/1.1 503"), "{refused}");
    busy.write(PLAIN).await;
    assert_eq!(busy.next().await.status, 200);
}

#[tokio::test]
async fn an_upgraded_connection_keeps_its_slot_and_is_not_idle() {
    let upgrade = |socket: axum::extract::WebSocketUpgrade| async move {
        socket.on_upgrade(|mut socket| async move { while let Some(Ok(_)) = socket.recv().await {} })
    };
    let change = |settings: &mut tenure_service::Settings| {
        settings.limits.max_connections = 1;
        settings.limits.idle_timeout_ms = 50;
    };
    let server = start(change, Router::new().route("/ws", get(upgrade))).await;
    let mut socket = server.connect().await;
    socket
        .write(
            "GET /ws HTTP/1.1\r\nhost: t\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        )
        .await;
    assert_eq!(socket.next().await.status, 101);
    moment().await;
    assert_eq!(server.send("GET /ws HTTP/1.1", "").await.status, 503, "its place is taken");
    // A ping without contents, masked, and the pong.
    socket.0.write_all(&[0x89, 0x80, 0, 0, 0, 0]).await.unwrap();
    let mut pong = [0; 2];
    soon(socket.0.read_exact(&mut pong)).await.unwrap();
    assert_eq!(pong, [0x8a, 0]);
    drop(socket);
    soon(async { while server.send("GET /ws HTTP/1.1", "").await.status == 503 {} }).await;
}

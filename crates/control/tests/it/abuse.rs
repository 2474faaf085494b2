//! Hostile and broken clients, which must not affect the others.

use std::sync::{Arc, Mutex};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tenure_control::{Options, PAYLOAD, frame};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tracing_subscriber::fmt::MakeWriter;

use crate::fixture::{Fixture, OTHER, WRITER, crowd, eventually, long_ttl, short_ttl};

fn fragment(text: &str, first: bool, last: bool) -> Message {
    let code = if first { Data::Text } else { Data::Continue };
    Message::Frame(Frame::message(text.as_bytes().to_vec(), OpCode::Data(code), last))
}

#[tokio::test]
async fn fragmented_messages_are_reassembled_and_bounded() {
    let fixture = Fixture::start(long_ttl()).await;
    let mut socket = fixture.socket().await;
    for (i, part) in
        ["{\"type\":", "\"parameters.get\",", "\"requestId\":\"pieces\"}"].into_iter().enumerate()
    {
        socket.send(fragment(part, i == 0, i == 2)).await;
    }
    assert_eq!(socket.until(|value| value["requestId"] == "pieces").await["success"], true);
    let fits = format!("{{\"type\":\"parameters.get\",\"requestId\":\"big\"{}}}", " ".repeat(64 * 1024 - 44));
    assert!(fits.len() <= 64 * 1024);
    socket.text(fits).await;
    assert_eq!(socket.until(|value| value["requestId"] == "big").await["success"], true);
    socket.text("x".repeat(64 * 1024 + 1)).await;
    assert_eq!(socket.closed().await, Some(CloseCode::Size));

    let mut socket = fixture.socket().await;
    socket.send(fragment(&"x".repeat(40_000), true, false)).await;
    socket.socket.send(fragment(&"x".repeat(40_000), false, true)).await.ok();
    assert_eq!(socket.closed().await, Some(CloseCode::Size), "too big only after reassembly");

    let mut socket = fixture.socket().await;
    socket.send(Message::binary(vec![0; 2_048])).await;
    socket.send(Message::binary(vec![0; 2_049])).await;
    assert_eq!(socket.closed().await, Some(CloseCode::Size));
    eventually("the frame that fits was counted", async || {
        fixture.status().await["renderCounters"]["framesInvalid"] == 1
    })
    .await;
    fixture.stop().await;
}

#[tokio::test]
async fn the_number_of_clients_is_limited() {
    let fixture = Fixture::start(Options { max_clients: 3, ..long_ttl() }).await;
    let mut places = Vec::new();
    for _ in 0..3 {
        let mut socket = fixture.socket().await;
        socket.done(json!({ "type": "parameters.get" })).await;
        places.push(socket);
    }
    assert_eq!(fixture.socket().await.closed().await, Some(CloseCode::Policy));
    drop(places.pop());
    eventually("a connection slot is free again", async || fixture.status().await["wsClients"] == 2).await;
    fixture.socket().await.done(json!({ "type": "parameters.get" })).await;
    fixture.stop().await;
}

#[tokio::test]
async fn floods_are_refused_and_other_clients_keep_their_lease() {
    let fixture = Fixture::start(long_ttl()).await;
    let (mut owner, mut flood) = (fixture.socket().await, fixture.socket_of(OTHER).await);
    let owned = owner.acquire("phone").await;
    for _ in 0..120 {
        flood.text("{\"type\":\"parameters.get\"}").await;
    }
    let refused = flood.until(|value| value["error"]["code"] == "RATE_LIMITED").await;
    assert_eq!(refused["type"], "error");
    owner.done(json!({ "type": "control.heartbeat", "leaseId": owned.id, "leaseToken": owned.token })).await;
    let mut limited = 0;
    for _ in 0..260 {
        let (code, body) = fixture.ask_once(OTHER, "GET", "/api/v1/parameters", None, &[]).await;
        if code == 429 {
            assert_eq!(body["error"]["code"], "RATE_LIMITED");
            limited += 1;
        }
    }
    // Only requests over the limit of one second are refused; a slow machine spreads them over several seconds.
    assert!(limited <= 70, "{limited}");
    assert_eq!(fixture.get("/api/v1/parameters").await.0, 200, "each principal has its own limit");
    fixture.stop().await;
}

#[tokio::test]
async fn guessed_and_replayed_tokens_are_rate_limited() {
    let fixture = Fixture::start(long_ttl()).await;
    let (mut owner, mut guesser) = (fixture.socket().await, fixture.socket_of(OTHER).await);
    let first = owner.acquire("phone").await;
    owner.done(json!({ "type": "control.release", "leaseId": first.id, "leaseToken": first.token })).await;
    let owned = owner.acquire("phone").await;
    for i in 0..10 {
        let (code, _) = fixture.ask(OTHER, "POST", "/api/v1/effects/next", None, &first.headers()).await;
        assert_eq!(code, 409, "{i}: an old token");
    }
    let (code, body) = fixture.ask(OTHER, "POST", "/api/v1/effects/next", None, &first.headers()).await;
    assert_eq!((code, &body["error"]["code"]), (429, &json!("RATE_LIMITED")));
    assert!(body["error"]["retryAfterMs"].as_u64().is_some_and(|ms| (1..=5_000).contains(&ms)), "{body}");
    assert_eq!(
        guesser
            .refused(json!({ "type": "control.release", "leaseId": owned.id, "leaseToken": "A".repeat(22) }))
            .await,
        "RATE_LIMITED"
    );
    // Neither the owner, another principal, nor requests without a token are affected.
    assert_eq!(fixture.ask(WRITER, "POST", "/api/v1/effects/next", None, &owned.headers()).await.0, 200);
    assert_eq!(fixture.ask(OTHER, "POST", "/api/v1/effects/next", None, &[]).await.0, 428);
    owner.done(json!({ "type": "control.heartbeat", "leaseId": owned.id, "leaseToken": owned.token })).await;
    eventually("the penalty is over", async || {
        fixture.ask(OTHER, "POST", "/api/v1/effects/next", None, &first.headers()).await.0 == 409
    })
    .await;
    fixture.stop().await;
}

/// A raw WebSocket handshake, so that no library reads in the background.
async fn raw_handshake(fixture: &Fixture, token: &str) -> tokio::net::TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut stream = socket.connect(fixture.address).await.unwrap();
    let head = format!(
        "GET /ws HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        fixture.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 101");
    stream
}

/// Sends a short text frame with a mask of zeros.
async fn send_raw(stream: &mut tokio::net::TcpStream, text: &str) {
    assert!(text.len() < 126);
    let mut bytes = vec![0x81, 0x80 | text.len() as u8, 0, 0, 0, 0];
    bytes.extend_from_slice(text.as_bytes());
    stream.write_all(&bytes).await.unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_read_is_dropped_without_delaying_others() {
    // A long strip fills the buffers quickly.
    let fixture = Fixture::start(Options { leds: 4_096, fps: 60, ..long_ttl() }).await;
    let mut stuck = raw_handshake(&fixture, WRITER).await;
    let mut other = fixture.socket().await;
    eventually("both are connected", async || fixture.status().await["wsClients"] == 2).await;
    send_raw(&mut stuck, "{\"type\":\"ledStream.subscribe\",\"fps\":60}").await;
    let owned = other.acquire("phone").await;
    eventually("the client is dropped", async || {
        // The others are served meanwhile.
        other
            .ask(json!({ "type": "control.heartbeat", "leaseId": owned.id, "leaseToken": owned.token }))
            .await;
        tokio::task::yield_now().await;
        fixture.status().await["wsClients"] == 1
    })
    .await;
    fixture.stop().await;
}

#[tokio::test]
async fn a_half_open_owner_is_detected_within_the_ttl() {
    let fixture = Fixture::start(Options { ttl_ms: 15_000, heartbeat_ms: 1_000, ..long_ttl() }).await;
    let mut observer = fixture.socket().await;
    let mut gone = raw_handshake(&fixture, WRITER).await;
    send_raw(&mut gone, "{\"type\":\"control.acquire\",\"clientName\":\"cut off\"}").await;
    observer.event("acquired").await;
    // It neither closes nor answers pings, so its lease is released before it would expire.
    let ended =
        observer.until(|value| value["data"]["active"] == false && value["data"]["leaseId"] != "").await;
    assert_eq!((&ended["event"], &ended["data"]["reason"]), (&json!("released"), &json!("ws_disconnect")));
    drop(gone);
    fixture.stop().await;
}

/// Resident memory of this process in bytes.
fn resident_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1_024
}

/// More than the allocator retains here, and less than a few kilobytes for each of ten thousand connections.
const GROWTH: u64 = 48 << 20;

/// Opens and closes connections in every possible way, a few at a time.
async fn churn(fixture: &Fixture, numbers: std::ops::Range<usize>) {
    let one = async |i: usize| match i % 8 {
        0 => {
            let mut socket = fixture.socket_of(&crowd(i / 8)).await;
            socket.ask(json!({ "type": "control.acquire", "clientName": "churn" })).await;
        }
        1 => fixture.socket_of(&crowd(i / 8)).await.close().await,
        2 => {
            let mut stream = raw_handshake(fixture, &crowd(i / 8)).await;
            send_raw(&mut stream, "{\"type\":\"control.acquire\"}").await;
        }
        // Dropped in the middle of a message.
        3 => raw_handshake(fixture, &crowd(i / 8)).await.write_all(&[0x81, 0xfe, 0xff]).await.unwrap(),
        _ => drop(raw_handshake(fixture, &crowd(i / 8)).await),
    };
    futures_util::stream::iter(numbers).for_each_concurrent(16, one).await;
    eventually("no client is connected and no lease is active", async || {
        let status = fixture.status().await;
        status["wsClients"] == 0 && status["controlLease"]["active"] == false
    })
    .await;
}

#[tokio::test]
async fn ten_thousand_connections_leak_neither_slots_nor_memory() {
    let fixture = Fixture::start(long_ttl()).await;
    // The first connections allocate what is allocated once.
    churn(&fixture, 0..1_000).await;
    let before = resident_memory();
    churn(&fixture, 1_000..10_000).await;
    let after = resident_memory();
    assert!(after < before + GROWTH, "{} MiB more", (after - before) >> 20);
    let mut socket = fixture.socket().await;
    socket.acquire("after").await;
    fixture.stop().await;
}

#[tokio::test]
async fn two_minutes_of_frames_at_full_speed_leak_no_memory() {
    let fixture = Fixture::start(long_ttl()).await;
    let mut owner = fixture.socket().await;
    owner.acquire("composer").await;
    owner.done(json!({ "type": "render.stream.start", "targetFps": 120, "staleTimeoutMs": 5000 })).await;
    let mut before = 0;
    for sequence in 0..14_400 {
        if sequence == 1_000 {
            before = resident_memory();
        }
        owner.send(Message::binary(frame(sequence, &[sequence as u8; PAYLOAD]))).await;
    }
    // The reply follows all of them.
    let status = owner.done(json!({ "type": "render.stream.status" })).await;
    let after = resident_memory();
    assert!(after < before + (16 << 20), "{} MiB more", (after - before) >> 20);
    let count = |name: &str| status[name].as_u64().unwrap();
    // Frames over the rate limit are ignored; accepted frames were rendered, replaced or are buffered.
    assert!(count("framesRx") >= 300 && count("framesRx") <= 14_400, "{status}");
    let accounted = count("framesRendered") + count("framesDroppedMailbox");
    assert!(count("framesRx") - accounted <= 1, "{status}");
    assert_eq!((count("framesInvalid"), count("framesBlockedLease")), (0, 0));
    fixture.stop().await;
}

/// Captures the log at every level.
#[derive(Clone, Default)]
struct LogCapture(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for LogCapture {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogCapture {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn no_output_of_a_long_run_contains_a_token() {
    let log = LogCapture::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .with_ansi(false)
        .finish();
    // The only test that sets a global subscriber; nextest runs each test in its own process.
    let _ = tracing::subscriber::set_global_default(subscriber);
    let fixture = Fixture::start(short_ttl()).await;
    let (mut owner, mut observer) = (fixture.socket().await, fixture.socket_of(OTHER).await);
    let (mut tokens, mut heard) = (Vec::new(), Vec::new());
    let evil = "a\"}\n{\"event\":\"forged\",\"x\":\"\u{1b}[31m\u{7}\r\n";
    for round in 0..12 {
        let owned = loop {
            let answer = owner.ask(json!({ "type": "control.acquire", "clientName": evil })).await;
            if answer["success"] == true {
                break crate::fixture::OwnedLease {
                    id: crate::fixture::text(&answer["data"]["leaseId"]),
                    token: crate::fixture::text(&answer["data"]["leaseToken"]),
                };
            }
        };
        assert!(owned.token.len() == 22);
        heard.push(observer.event("acquired").await.to_string());
        heard.push(fixture.post("/api/v1/effects/next", json!({}), &owned.headers()).await.1.to_string());
        heard.push(
            fixture
                .post(
                    "/api/v1/effects/next",
                    json!({}),
                    &[("x-control-lease", &owned.token), ("x-control-lease-id", "cl_1")],
                )
                .await
                .1
                .to_string(),
        );
        for path in ["/api/v1/control/status", "/api/v1/device/status", "/api/v1/device/state"] {
            heard.push(fixture.get(path).await.1.to_string());
        }
        heard.push(
            observer
                .ask(json!({ "type": "control.heartbeat", "leaseId": owned.id, "leaseToken": owned.token }))
                .await
                .to_string(),
        );
        heard.push(observer.ask(json!({ "type": "control.status" })).await.to_string());
        match round % 3 {
            0 => heard.push(
                owner
                    .ask(json!({ "type": "control.release", "leaseId": owned.id, "leaseToken": owned.token }))
                    .await
                    .to_string(),
            ),
            1 => heard.push(observer.event("expired").await.to_string()),
            _ => {
                drop(std::mem::replace(&mut owner, fixture.socket().await));
                heard.push(observer.until(|value| value["data"]["active"] == false).await.to_string());
            }
        }
        tokens.push(owned.token);
    }
    heard.push(tenure_service::telemetry::metrics_text());
    fixture.stop().await;
    heard.push(String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned());
    let all = heard.join("\n");
    assert!(
        all.contains("control.lease.acquired") && all.contains("control.lease.expired"),
        "the log was captured"
    );
    for token in &tokens {
        assert!(!all.contains(token.as_str()), "token leaked");
    }
    let logged = heard.last().unwrap();
    assert!(
        !logged.lines().any(|line| line.starts_with("{\"event\":\"forged\"")),
        "a client name forged a log line"
    );
    assert!(!logged.contains('\u{7}'), "a control character was logged");
    let lines = logged.lines().filter_map(|line| line.split_once("envelope=").map(|(_, rest)| rest));
    for line in lines {
        let envelope = serde_json::Deserializer::from_str(line).into_iter::<Value>().next().unwrap().unwrap();
        assert!(envelope["schemaVersion"] == "1.0.0", "{line}");
    }
}

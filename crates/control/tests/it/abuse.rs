//! What hostile and broken clients do, and what it does not do to the others.

use std::sync::{Arc, Mutex};

use control::{Options, PAYLOAD, frame};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tracing_subscriber::fmt::MakeWriter;

use crate::rig::{OTHER, Rig, WRITER, calm, crowd, eventually, hasty};

fn piece(text: &str, first: bool, last: bool) -> Message {
    let code = if first { Data::Text } else { Data::Continue };
    Message::Frame(Frame::message(text.as_bytes().to_vec(), OpCode::Data(code), last))
}

#[tokio::test]
async fn messages_are_put_together_and_bounded() {
    let rig = Rig::start(calm()).await;
    let mut socket = rig.socket().await;
    for (i, part) in
        ["{\"type\":", "\"parameters.get\",", "\"requestId\":\"pieces\"}"].into_iter().enumerate()
    {
        socket.send(piece(part, i == 0, i == 2)).await;
    }
    assert_eq!(socket.until(|value| value["requestId"] == "pieces").await["success"], true);
    let fits = format!("{{\"type\":\"parameters.get\",\"requestId\":\"big\"{}}}", " ".repeat(64 * 1024 - 44));
    assert!(fits.len() <= 64 * 1024);
    socket.text(fits).await;
    assert_eq!(socket.until(|value| value["requestId"] == "big").await["success"], true);
    socket.text("x".repeat(64 * 1024 + 1)).await;
    assert_eq!(socket.closed().await, Some(CloseCode::Size));

    let mut socket = rig.socket().await;
    socket.send(piece(&"x".repeat(40_000), true, false)).await;
    socket.socket.send(piece(&"x".repeat(40_000), false, true)).await.ok();
    assert_eq!(socket.closed().await, Some(CloseCode::Size), "too big only when put together");

    let mut socket = rig.socket().await;
    socket.send(Message::binary(vec![0; 2_048])).await;
    socket.send(Message::binary(vec![0; 2_049])).await;
    assert_eq!(socket.closed().await, Some(CloseCode::Size));
    eventually("the one that fits was looked at", async || {
        rig.status().await["renderCounters"]["framesInvalid"] == 1
    })
    .await;
    rig.stop().await;
}

#[tokio::test]
async fn there_are_so_many_clients_and_no_more() {
    let rig = Rig::start(Options { max_clients: 3, ..calm() }).await;
    let mut places = Vec::new();
    for _ in 0..3 {
        let mut socket = rig.socket().await;
        socket.done(json!({ "type": "parameters.get" })).await;
        places.push(socket);
    }
    assert_eq!(rig.socket().await.closed().await, Some(CloseCode::Policy));
    drop(places.pop());
    eventually("a place is free again", async || rig.status().await["wsClients"] == 2).await;
    rig.socket().await.done(json!({ "type": "parameters.get" })).await;
    rig.stop().await;
}

#[tokio::test]
async fn floods_are_refused_and_heartbeats_of_others_go_on() {
    let rig = Rig::start(calm()).await;
    let (mut owner, mut flood) = (rig.socket().await, rig.socket_of(OTHER).await);
    let owned = owner.acquire("phone").await;
    for _ in 0..120 {
        flood.text("{\"type\":\"parameters.get\"}").await;
    }
    let refused = flood.until(|value| value["error"]["code"] == "RATE_LIMITED").await;
    assert_eq!(refused["type"], "error");
    owner.done(json!({ "type": "control.heartbeat", "leaseId": owned.id, "leaseToken": owned.token })).await;
    let mut limited = 0;
    for _ in 0..260 {
        let (code, body) = rig.ask_once(OTHER, "GET", "/api/v1/parameters", None, &[]).await;
        if code == 429 {
            assert_eq!(body["error"]["code"], "RATE_LIMITED");
            limited += 1;
        }
    }
    // At most what is over the allowance of one second; a slow machine spreads the requests over several.
    assert!(limited <= 70, "{limited}");
    assert_eq!(rig.get("/api/v1/parameters").await.0, 200, "each has its own allowance");
    rig.stop().await;
}

#[tokio::test]
async fn guesses_and_replays_of_tokens_are_held_back() {
    let rig = Rig::start(calm()).await;
    let (mut owner, mut guesser) = (rig.socket().await, rig.socket_of(OTHER).await);
    let first = owner.acquire("phone").await;
    owner.done(json!({ "type": "control.release", "leaseId": first.id, "leaseToken": first.token })).await;
    let owned = owner.acquire("phone").await;
    for i in 0..10 {
        let (code, _) = rig.ask(OTHER, "POST", "/api/v1/effects/next", None, &first.headers()).await;
        assert_eq!(code, 409, "{i}: an old token");
    }
    let (code, body) = rig.ask(OTHER, "POST", "/api/v1/effects/next", None, &first.headers()).await;
    assert_eq!((code, &body["error"]["code"]), (429, &json!("RATE_LIMITED")));
    assert!(body["error"]["retryAfterMs"].as_u64().is_some_and(|ms| (1..=5_000).contains(&ms)), "{body}");
    assert_eq!(
        guesser
            .refused(json!({ "type": "control.release", "leaseId": owned.id, "leaseToken": "A".repeat(22) }))
            .await,
        "RATE_LIMITED"
    );
    // The owner, another principal, is not touched by it; nor is who sends no token at all.
    assert_eq!(rig.ask(WRITER, "POST", "/api/v1/effects/next", None, &owned.headers()).await.0, 200);
    assert_eq!(rig.ask(OTHER, "POST", "/api/v1/effects/next", None, &[]).await.0, 428);
    owner.done(json!({ "type": "control.heartbeat", "leaseId": owned.id, "leaseToken": owned.token })).await;
    eventually("it may guess again", async || {
        rig.ask(OTHER, "POST", "/api/v1/effects/next", None, &first.headers()).await.0 == 409
    })
    .await;
    rig.stop().await;
}

/// A WebSocket handshake by hand, so that nothing reads behind the test's back.
async fn bare(rig: &Rig, token: &str) -> tokio::net::TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4_096).unwrap();
    let mut stream = socket.connect(rig.address).await.unwrap();
    let head = format!(
        "GET /ws HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        rig.address
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 101");
    stream
}

/// A short text message as a client sends it, with a mask of zeros.
async fn say(stream: &mut tokio::net::TcpStream, text: &str) {
    assert!(text.len() < 126);
    let mut bytes = vec![0x81, 0x80 | text.len() as u8, 0, 0, 0, 0];
    bytes.extend_from_slice(text.as_bytes());
    stream.write_all(&bytes).await.unwrap();
}

#[tokio::test]
async fn a_reader_that_does_not_read_is_dropped_and_nobody_waits_for_it() {
    // A long strip fills the buffers between the two soon.
    let rig = Rig::start(Options { leds: 4_096, fps: 60, ..calm() }).await;
    let mut stuck = bare(&rig, WRITER).await;
    let mut other = rig.socket().await;
    eventually("both are there", async || rig.status().await["wsClients"] == 2).await;
    say(&mut stuck, "{\"type\":\"ledStream.subscribe\",\"fps\":60}").await;
    let owned = other.acquire("phone").await;
    eventually("it is dropped", async || {
        // Meanwhile the others are served as ever.
        other
            .ask(json!({ "type": "control.heartbeat", "leaseId": owned.id, "leaseToken": owned.token }))
            .await;
        tokio::task::yield_now().await;
        rig.status().await["wsClients"] == 1
    })
    .await;
    rig.stop().await;
}

#[tokio::test]
async fn a_half_open_owner_is_found_within_the_ttl() {
    let rig = Rig::start(Options { ttl_ms: 15_000, heartbeat_ms: 1_000, ..calm() }).await;
    let mut observer = rig.socket().await;
    let mut gone = bare(&rig, WRITER).await;
    say(&mut gone, "{\"type\":\"control.acquire\",\"clientName\":\"cut off\"}").await;
    observer.event("acquired").await;
    // It neither closes nor answers pings. Found by that, its lease is released; the TTL would have expired it.
    let ended =
        observer.until(|value| value["data"]["active"] == false && value["data"]["leaseId"] != "").await;
    assert_eq!((&ended["event"], &ended["data"]["reason"]), (&json!("released"), &json!("ws_disconnect")));
    drop(gone);
    rig.stop().await;
}

/// Memory of this process, server and clients, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1_024
}

/// More than the allocator ever keeps for itself here, and less than a few kilobytes for each of ten thousand.
const GROWTH: u64 = 48 << 20;

/// Connections that come and go in every way there is, a few at a time.
async fn churn(rig: &Rig, numbers: std::ops::Range<usize>) {
    let one = async |i: usize| match i % 8 {
        0 => {
            let mut socket = rig.socket_of(&crowd(i / 8)).await;
            socket.ask(json!({ "type": "control.acquire", "clientName": "churn" })).await;
        }
        1 => rig.socket_of(&crowd(i / 8)).await.close().await,
        2 => {
            let mut stream = bare(rig, &crowd(i / 8)).await;
            say(&mut stream, "{\"type\":\"control.acquire\"}").await;
        }
        // In the middle of a message.
        3 => bare(rig, &crowd(i / 8)).await.write_all(&[0x81, 0xfe, 0xff]).await.unwrap(),
        _ => drop(bare(rig, &crowd(i / 8)).await),
    };
    futures_util::stream::iter(numbers).for_each_concurrent(16, one).await;
    eventually("everybody is gone and nothing is held", async || {
        let status = rig.status().await;
        status["wsClients"] == 0 && status["controlLease"]["active"] == false
    })
    .await;
}

#[tokio::test]
async fn ten_thousand_connections_come_and_go_and_leave_neither_places_nor_memory_taken() {
    let rig = Rig::start(calm()).await;
    // What is set aside once is set aside by the first of them.
    churn(&rig, 0..1_000).await;
    let before = resident();
    churn(&rig, 1_000..10_000).await;
    let after = resident();
    assert!(after < before + GROWTH, "{} MiB more", (after - before) >> 20);
    let mut socket = rig.socket().await;
    socket.acquire("after").await;
    rig.stop().await;
}

#[tokio::test]
async fn two_minutes_of_frames_as_fast_as_they_go_out_grow_nothing() {
    let rig = Rig::start(calm()).await;
    let mut owner = rig.socket().await;
    owner.acquire("composer").await;
    owner.done(json!({ "type": "render.stream.start", "targetFps": 120, "staleTimeoutMs": 5000 })).await;
    let mut before = 0;
    for sequence in 0..14_400 {
        if sequence == 1_000 {
            before = resident();
        }
        owner.send(Message::binary(frame(sequence, &[sequence as u8; PAYLOAD]))).await;
    }
    // Answered after all of them.
    let status = owner.done(json!({ "type": "render.stream.status" })).await;
    let after = resident();
    assert!(after < before + (16 << 20), "{} MiB more", (after - before) >> 20);
    let count = |name: &str| status[name].as_u64().unwrap();
    // Those over the rate of one connection are left out; what was taken was shown, replaced, or waits.
    assert!(count("framesRx") >= 300 && count("framesRx") <= 14_400, "{status}");
    let accounted = count("framesRendered") + count("framesDroppedMailbox");
    assert!(count("framesRx") - accounted <= 1, "{status}");
    assert_eq!((count("framesInvalid"), count("framesBlockedLease")), (0, 0));
    rig.stop().await;
}

/// Everything that is logged, at every level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn no_output_of_a_long_run_holds_a_token() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .with_ansi(false)
        .finish();
    // The only test of this binary that sets one; nextest runs each in a process of its own.
    let _ = tracing::subscriber::set_global_default(subscriber);
    let rig = Rig::start(hasty()).await;
    let (mut owner, mut observer) = (rig.socket().await, rig.socket_of(OTHER).await);
    let (mut tokens, mut heard) = (Vec::new(), Vec::new());
    let evil = "a\"}\n{\"event\":\"forged\",\"x\":\"\u{1b}[31m\u{7}\r\n";
    for round in 0..12 {
        let owned = loop {
            let answer = owner.ask(json!({ "type": "control.acquire", "clientName": evil })).await;
            if answer["success"] == true {
                break crate::rig::Owned {
                    id: crate::rig::text(&answer["data"]["leaseId"]),
                    token: crate::rig::text(&answer["data"]["leaseToken"]),
                };
            }
        };
        assert!(owned.token.len() == 22);
        heard.push(observer.event("acquired").await.to_string());
        heard.push(rig.post("/api/v1/effects/next", json!({}), &owned.headers()).await.1.to_string());
        heard.push(
            rig.post(
                "/api/v1/effects/next",
                json!({}),
                &[("x-control-lease", &owned.token), ("x-control-lease-id", "cl_1")],
            )
            .await
            .1
            .to_string(),
        );
        for path in ["/api/v1/control/status", "/api/v1/device/status", "/api/v1/device/state"] {
            heard.push(rig.get(path).await.1.to_string());
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
                drop(std::mem::replace(&mut owner, rig.socket().await));
                heard.push(observer.until(|value| value["data"]["active"] == false).await.to_string());
            }
        }
        tokens.push(owned.token);
    }
    heard.push(service::telemetry::metrics_text());
    rig.stop().await;
    heard.push(String::from_utf8_lossy(&log.0.lock().unwrap()).into_owned());
    let all = heard.join("\n");
    assert!(
        all.contains("control.lease.acquired") && all.contains("control.lease.expired"),
        "the log was heard"
    );
    for token in &tokens {
        assert!(!all.contains(token.as_str()), "a token got out");
    }
    let logged = heard.last().unwrap();
    assert!(
        !logged.lines().any(|line| line.starts_with("{\"event\":\"forged\"")),
        "a name broke out of its line"
    );
    assert!(!logged.contains('\u{7}'), "a name rang the bell");
    let lines = logged.lines().filter_map(|line| line.split_once("envelope=").map(|(_, rest)| rest));
    for line in lines {
        let envelope = serde_json::Deserializer::from_str(line).into_iter::<Value>().next().unwrap().unwrap();
        assert!(envelope["schemaVersion"] == "1.0.0", "{line}");
    }
}

//! Rejected requests have no side effects.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::api::{ADMIN, CHANNEL, OTHER, READ, TestApi, TestApiBuilder, WRITE, send, within_limit};

#[tokio::test]
async fn requests_without_a_sufficient_token_have_no_side_effects() {
    let api = TestApiBuilder::new().phase1().build().await;
    let intent = json!({"serviceRef": CHANNEL});
    let bare = send(api.bare(Method::POST, "/intents").json(&intent)).await;
    assert_eq!(bare.code(), (401, "UNAUTHORIZED"));
    assert!(bare.headers.contains_key("www-authenticate"));
    let bad = send(api.request("no-such-token", Method::POST, "/intents").json(&intent)).await;
    assert_eq!(bad.code(), (401, "UNAUTHORIZED"));
    for token in [READ, OTHER] {
        let refused = send(api.request(token, Method::POST, "/intents").json(&intent)).await;
        assert_eq!(refused.code(), (403, "FORBIDDEN"));
        assert_eq!(refused.body["requiredScope"], "v3:write");
    }
    for (method, path) in [
        (Method::GET, "/sessions"),
        (Method::GET, "/sessions/s-1"),
        (Method::POST, "/sessions/s-1/heartbeat"),
        (Method::GET, "/sessions/s-1/events"),
        (Method::GET, "/sessions/s-1/hls/index.m3u8"),
        (Method::GET, "/sessions/s-1/hls/seg-1.m4s"),
        (Method::GET, "/sessions/s-1/hls/no-such-name"),
        (Method::GET, "/channels"),
    ] {
        assert_eq!(send(api.bare(method.clone(), path)).await.code(), (401, "UNAUTHORIZED"), "{path}");
        assert_eq!(send(api.request(OTHER, method, path)).await.code(), (403, "FORBIDDEN"), "{path}");
    }
    for token in [READ, WRITE] {
        assert_eq!(send(api.request(token, Method::GET, "/sessions")).await.code(), (403, "FORBIDDEN"));
    }
    assert_eq!(api.port_calls(), [0; 4], "no read, no write, no creation, no lease");
}

#[tokio::test]
async fn each_scope_includes_the_one_before() {
    let api = TestApi::new().await;
    for token in [READ, WRITE, ADMIN] {
        assert_eq!(send(api.request(token, Method::GET, "/channels")).await.status, StatusCode::OK);
    }
    for (token, profile) in [(WRITE, "high"), (ADMIN, "low")] {
        let intent = json!({"serviceRef": CHANNEL, "profileID": profile});
        let taken = send(api.request(token, Method::POST, "/intents").json(&intent)).await;
        assert_eq!(taken.status, StatusCode::ACCEPTED);
    }
}

#[tokio::test]
async fn invalid_intents_have_no_side_effects() {
    let api = TestApiBuilder::new().phase1().build().await;
    let bad: [Value; 16] = [
        json!({}),
        json!([]),
        json!("stream.start"),
        json!({"serviceRef": CHANNEL, "surprise": 1}),
        json!({"serviceRef": CHANNEL, "recordingId": "rec-1"}),
        json!({"serviceRef": "a|b"}),
        json!({"serviceRef": "a\u{7}b"}),
        json!({"serviceRef": CHANNEL, "profileID": "a|b"}),
        json!({"serviceRef": CHANNEL, "profileID": "ultra"}),
        json!({"recordingId": "a|b"}),
        json!({"recordingId": "rec-1", "startMs": -1}),
        json!({"recordingId": "rec-1", "startMs": 1.5}),
        json!({"type": "stream.pause", "serviceRef": CHANNEL}),
        json!({"type": "stream.stop"}),
        json!({"serviceRef": CHANNEL, "params": {"mode": "RECORDING"}}),
        json!({"serviceRef": CHANNEL, "correlationId": "with a space"}),
    ];
    for body in bad {
        let refused = api.submit(body.clone()).await;
        assert_eq!(refused.code(), (400, "INVALID_INPUT"), "{body}");
    }
    for text in ["", "{", "{\"serviceRef\":", "nonsense", "{\"serviceRef\":\"a\",\"serviceRef\":\"b\"}"] {
        let request = api.request(WRITE, Method::POST, "/intents").header("content-type", "application/json");
        assert_eq!(send(request.body(text)).await.code(), (400, "INVALID_INPUT"), "{text}");
    }
    let request = api.request(WRITE, Method::POST, "/intents").header("content-type", "text/plain");
    assert_eq!(send(request.body("{}")).await.code(), (415, "UNSUPPORTED_MEDIA_TYPE"));
    assert_eq!(api.port_calls(), [0; 4]);
}

/// Sends exactly these bytes and returns the status and the code of the response. Only bytes that the server reads are
/// sent, because closing a connection with unread bytes may lose the response.
async fn send_raw(api: &TestApi, head: &str, body: &str) -> (u16, String) {
    let mut wire = TcpStream::connect(api.address()).await.unwrap();
    let head = format!("POST /api/v3/intents HTTP/1.1\r\nhost: t\r\nconnection: close\r\n{head}\r\n\r\n");
    wire.write_all(head.as_bytes()).await.unwrap();
    wire.write_all(body.as_bytes()).await.unwrap();
    let mut text = String::new();
    within_limit(wire.read_to_string(&mut text)).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let code = body["code"].as_str().unwrap_or_default().to_owned();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), code)
}

#[tokio::test]
async fn a_body_over_one_mebibyte_is_rejected_with_and_without_content_length() {
    const MIB: usize = 1 << 20;
    let api = TestApi::new().await;
    let intent = |size: usize| {
        let head = format!("{{\"serviceRef\":\"{CHANNEL}\",\"idempotencyKey\":\"");
        let fill = "x".repeat(size - head.len() - 2);
        format!("{head}{fill}\"}}")
    };
    let json = "content-type: application/json";
    let token = format!("authorization: Bearer {WRITE}\r\n{json}");
    let refused = (400, "INVALID_INPUT".to_owned());
    let announced = format!("{token}\r\ncontent-length: {}", MIB + 1);
    assert_eq!(send_raw(&api, &announced, &intent(MIB + 1)).await, refused);
    let chunked = format!("{token}\r\ntransfer-encoding: chunked");
    assert_eq!(send_raw(&api, &chunked, &format!("{:x}\r\n{}", MIB + 1, intent(MIB + 1))).await, refused);
    // A body over the limit of the server is rejected before it is sent.
    let announced = format!("{token}\r\ncontent-length: {}", 3 * MIB);
    assert_eq!(send_raw(&api, &announced, "").await, refused);
    let bare = format!("{json}\r\ncontent-length: {}", 3 * MIB);
    assert_eq!(
        send_raw(&api, &bare, "").await,
        (401, "UNAUTHORIZED".to_owned()),
        "authentication comes first"
    );
    assert_eq!(api.port_calls(), [0; 4]);
    let whole = format!("{token}\r\ncontent-length: {MIB}");
    assert_eq!(send_raw(&api, &whole, &intent(MIB)).await.0, 202, "exactly one mebibyte is accepted");
}

#[tokio::test]
async fn invalid_ids_and_pages_are_rejected() {
    let api = TestApi::new().await;
    for id in ["a.b", "a%2Fb", "a%2e%2e", "a%20b", &"s".repeat(65)] {
        for path in ["", "/events", "/hls/index.m3u8"] {
            let refused = api.get(&format!("/sessions/{id}{path}")).await;
            assert_eq!(refused.code(), (400, "INVALID_INPUT"), "{id}{path}");
        }
        assert_eq!(api.heartbeat(id).await.code(), (400, "INVALID_INPUT"), "{id}");
    }
    for query in ["limit=0", "limit=1001", "limit=x", "offset=-1", "page=2", "limit=1&limit=2"] {
        let refused = send(api.request(ADMIN, Method::GET, &format!("/sessions?{query}"))).await;
        assert_eq!(refused.code(), (400, "INVALID_INPUT"), "{query}");
    }
    assert_eq!(api.port_calls(), [0; 4]);
}

//! The render stream over a real WebSocket.

use serde_json::{Value, json};
use tenure_control::{Options, PAYLOAD, PREVIEW_HEADER, frame};
use tokio_tungstenite::tungstenite::Message;

use crate::fixture::{Fixture, OTHER, Socket, eventually, long_ttl, within};

async fn start(owner: &mut Socket) -> Value {
    owner.done(json!({ "type": "render.stream.start", "targetFps": 60, "staleTimeoutMs": 5000, "desiredLedCount": 320, "desiredPixelFormat": "rgb888" })).await
}

async fn stopped(socket: &mut Socket) -> Value {
    let told = socket
        .until(|value| {
            value["type"] == "render.stream.stateChanged" && value["event"] == "render.stream.stopped"
        })
        .await;
    told["data"].clone()
}

#[tokio::test]
async fn only_the_owner_may_stream_and_only_valid_frames() {
    let fixture = Fixture::start(long_ttl()).await;
    let (mut owner, mut other) = (fixture.socket().await, fixture.socket_of(OTHER).await);
    let begin = json!({ "type": "render.stream.start" });
    assert_eq!(owner.refused(begin.clone()).await, "LEASE_REQUIRED");
    assert_eq!(owner.refused(json!({ "type": "render.stream.stop" })).await, "STREAM_NOT_ACTIVE");
    owner.acquire("composer").await;
    assert_eq!(other.refused(begin).await, "CONTROL_LOCKED");
    for (field, value) in [("desiredLedCount", json!(300)), ("desiredPixelFormat", json!("rgbw"))] {
        let mut message = json!({ "type": "render.stream.start" });
        message[field] = value;
        assert_eq!(owner.refused(message).await, "STREAM_CONTRACT_MISMATCH", "{field}");
    }
    let started = start(&mut owner).await;
    assert!(started["sessionId"].as_str().unwrap().starts_with("rs_"), "{started}");
    for (field, value) in [
        ("active", json!(true)),
        ("targetFps", json!(60)),
        ("recommendedFps", json!(120)),
        ("frameContractVersion", json!(1)),
        ("pixelFormat", json!("rgb888")),
        ("ledCount", json!(320)),
        ("headerBytes", json!(16)),
        ("payloadBytes", json!(960)),
        ("maxPayloadBytes", json!(960)),
        ("mailboxDepth", json!(2)),
        ("framesRx", json!(0)),
    ] {
        assert_eq!(started[field], value, "{field}");
    }
    let good = frame(1, &[200; PAYLOAD]);
    let spoil = |at: usize, value: u8| {
        let mut bytes = frame(2, &[1; PAYLOAD]);
        bytes[at] = value;
        bytes
    };
    owner.send(Message::binary(good.clone())).await;
    for bad in [good[..975].to_vec(), spoil(0, b'X'), spoil(4, 2), spoil(14, 1), good.clone()] {
        owner.send(Message::binary(bad)).await;
    }
    other.send(Message::binary(frame(3, &[9; PAYLOAD]))).await;
    eventually("all frames are counted", async || {
        let status = fixture.status().await;
        let counters = &status["renderCounters"];
        counters["framesRx"] == 1
            && counters["framesInvalid"] == 5
            && counters["framesBlockedLease"] == 1
            && counters["framesRendered"] == 1
    })
    .await;
    assert_eq!(
        fixture.status().await["controlCounters"]["blockedWsCommands"],
        2,
        "the other client's start and frame"
    );
    assert_eq!(other.refused(json!({ "type": "render.stream.stop" })).await, "CONTROL_LOCKED");
    let ended = owner.done(json!({ "type": "render.stream.stop" })).await;
    assert_eq!(
        (&ended["stopped"], &ended["reason"], &ended["sessionId"]),
        (&json!(true), &json!("user_stop"), &started["sessionId"])
    );
    assert_eq!(stopped(&mut other).await["reason"], "user_stop");
    fixture.stop().await;
}

#[tokio::test]
async fn the_strip_shows_streamed_frames() {
    let fixture = Fixture::start(long_ttl()).await;
    let (mut owner, mut watcher) = (fixture.socket().await, fixture.socket_of(OTHER).await);
    owner.acquire("composer").await;
    owner.done(json!({ "type": "setBrightness", "brightness": 255 })).await;
    watcher.done(json!({ "type": "ledStream.subscribe", "fps": 60 })).await;
    start(&mut owner).await;
    let mut pixels = [0; PAYLOAD];
    for (i, byte) in pixels.iter_mut().enumerate() {
        *byte = (i % 251) as u8;
    }
    owner.send(Message::binary(frame(u32::MAX, &pixels))).await;
    within(async {
        loop {
            if let Some(Message::Binary(picture)) = watcher.any().await {
                assert_eq!(picture.len(), PREVIEW_HEADER + PAYLOAD);
                if picture[PREVIEW_HEADER..] == pixels {
                    return;
                }
            }
        }
    })
    .await;
    fixture.stop().await;
}

#[tokio::test]
async fn the_stale_timeout_returns_to_the_internal_renderer() {
    let fixture = Fixture::start(long_ttl()).await;
    let (mut owner, mut other) = (fixture.socket().await, fixture.socket_of(OTHER).await);
    owner.acquire("composer").await;
    let started = owner.done(json!({ "type": "render.stream.start", "staleTimeoutMs": 250 })).await;
    let ended = stopped(&mut other).await;
    assert_eq!(
        (&ended["reason"], &ended["sessionId"], &ended["active"]),
        (&json!("stale_timeout"), &started["sessionId"], &json!(false))
    );
    assert_eq!(ended["staleTimeouts"], 1);
    owner.send(Message::binary(frame(1, &[1; PAYLOAD]))).await;
    eventually("the late frame is invalid", async || {
        fixture.status().await["renderCounters"]["framesInvalid"] == 1
    })
    .await;
    fixture.stop().await;
}

#[tokio::test]
async fn a_stream_ends_with_its_lease() {
    let fixture = Fixture::start(long_ttl()).await;
    let (mut owner, mut other) = (fixture.socket().await, fixture.socket_of(OTHER).await);
    let owned = owner.acquire("composer").await;
    start(&mut owner).await;
    owner.done(json!({ "type": "control.release", "leaseId": owned.id, "leaseToken": owned.token })).await;
    assert_eq!(stopped(&mut other).await["reason"], "lease_lost");
    owner.acquire("composer").await;
    start(&mut owner).await;
    drop(owner);
    assert_eq!(stopped(&mut other).await["reason"], "owner_disconnected");
    fixture.stop().await;

    let fixture = Fixture::start(Options { ttl_ms: 800, heartbeat_ms: 100, ..long_ttl() }).await;
    let (mut owner, mut other) = (fixture.socket().await, fixture.socket_of(OTHER).await);
    owner.acquire("composer").await;
    start(&mut owner).await;
    assert_eq!(stopped(&mut other).await["reason"], "lease_lost", "expired");
    fixture.stop().await;
}

//! The render stream over a real socket.

use control::{Options, PAYLOAD, PREVIEW_HEADER, frame};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::rig::{OTHER, Rig, Socket, calm, eventually, within};

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
async fn only_the_owner_streams_and_only_frames_of_the_contract() {
    let rig = Rig::start(calm()).await;
    let (mut owner, mut other) = (rig.socket().await, rig.socket_of(OTHER).await);
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
        let status = rig.status().await;
        let counters = &status["renderCounters"];
        counters["framesRx"] == 1
            && counters["framesInvalid"] == 5
            && counters["framesBlockedLease"] == 1
            && counters["framesRendered"] == 1
    })
    .await;
    assert_eq!(
        rig.status().await["controlCounters"]["blockedWsCommands"],
        2,
        "the other's start and its frame"
    );
    assert_eq!(other.refused(json!({ "type": "render.stream.stop" })).await, "CONTROL_LOCKED");
    let ended = owner.done(json!({ "type": "render.stream.stop" })).await;
    assert_eq!(
        (&ended["stopped"], &ended["reason"], &ended["sessionId"]),
        (&json!(true), &json!("user_stop"), &started["sessionId"])
    );
    assert_eq!(stopped(&mut other).await["reason"], "user_stop");
    rig.stop().await;
}

#[tokio::test]
async fn streamed_frames_are_what_the_strip_shows() {
    let rig = Rig::start(calm()).await;
    let (mut owner, mut watcher) = (rig.socket().await, rig.socket_of(OTHER).await);
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
    rig.stop().await;
}

#[tokio::test]
async fn silence_gives_the_strip_back_to_the_device() {
    let rig = Rig::start(calm()).await;
    let (mut owner, mut other) = (rig.socket().await, rig.socket_of(OTHER).await);
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
        rig.status().await["renderCounters"]["framesInvalid"] == 1
    })
    .await;
    rig.stop().await;
}

#[tokio::test]
async fn a_stream_ends_with_the_lease_it_stands_on() {
    let rig = Rig::start(calm()).await;
    let (mut owner, mut other) = (rig.socket().await, rig.socket_of(OTHER).await);
    let owned = owner.acquire("composer").await;
    start(&mut owner).await;
    owner.done(json!({ "type": "control.release", "leaseId": owned.id, "leaseToken": owned.token })).await;
    assert_eq!(stopped(&mut other).await["reason"], "lease_lost");
    owner.acquire("composer").await;
    start(&mut owner).await;
    drop(owner);
    assert_eq!(stopped(&mut other).await["reason"], "owner_disconnected");
    rig.stop().await;

    let rig = Rig::start(Options { ttl_ms: 800, heartbeat_ms: 100, ..calm() }).await;
    let (mut owner, mut other) = (rig.socket().await, rig.socket_of(OTHER).await);
    owner.acquire("composer").await;
    start(&mut owner).await;
    assert_eq!(stopped(&mut other).await["reason"], "lease_lost", "expired");
    rig.stop().await;
}

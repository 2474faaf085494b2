//! The device: its outputs, its stored state and its input validation.

use std::sync::Arc;

use serde_json::json;
use tenure_control::{COMMANDS, Options};
use tenure_lease::Store;
use tokio::net::UdpSocket;
use tokio_tungstenite::tungstenite::Message;

use crate::fixture::{Fixture, long_ttl, within};

#[tokio::test]
async fn frames_are_sent_over_ddp_and_to_preview_subscribers() {
    let strip = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let fixture = Fixture::start(Options { ddp: vec![strip.local_addr().unwrap()], ..long_ttl() }).await;
    let mut packet = [0; 2_048];
    let length = within(strip.recv(&mut packet)).await.unwrap();
    assert_eq!(length, 10 + 960);
    assert_eq!(packet[0], 0x41, "version 1 with the push flag");
    assert_eq!(&packet[2..10], [0x0b, 1, 0, 0, 0, 0, 0x03, 0xc0]);
    let first = packet[1];
    within(strip.recv(&mut packet)).await.unwrap();
    assert_eq!(packet[1], first % 15 + 1, "packets are numbered");
    let mut watcher = fixture.socket().await;
    watcher.done(json!({ "type": "setPower", "on": false })).await;
    watcher.done(json!({ "type": "ledStream.subscribe" })).await;
    within(async {
        loop {
            if let Some(Message::Binary(picture)) = watcher.any().await {
                assert_eq!(
                    (picture[0], picture[1], u16::from_le_bytes([picture[2], picture[3]])),
                    (b'L', 1, 320)
                );
                if picture[6..].iter().all(|byte| *byte == 0) {
                    return;
                }
            }
        }
    })
    .await;
    watcher.done(json!({ "type": "ledStream.unsubscribe" })).await;
    fixture.stop().await;
}

#[tokio::test]
async fn presets_settings_and_the_look_survive_a_restart() {
    let store: Arc<dyn Store> = tenure_store::Store::open("memory:").await.unwrap().into();
    let fixture = Fixture::on(store.clone(), long_ttl(), |router, _| router).await;
    let mut socket = fixture.socket().await;
    socket.done(json!({ "type": "parameters.set", "brightness": 33, "speed": 7, "paletteId": 4 })).await;
    socket.done(json!({ "type": "setEffect", "effectId": 5 })).await;
    let saved = socket.done(json!({ "type": "effectPresets.saveCurrent", "name": "evening" })).await;
    socket.done(json!({ "type": "settings.set", "deviceName": "shelf", "maxBrightness": 200 })).await;
    let owned = socket.acquire("phone").await;
    fixture.stop().await;

    let fixture = Fixture::on(store, long_ttl(), |router, _| router).await;
    let state = fixture.status().await["state"].clone();
    assert_eq!(
        (&state["effectId"], &state["paletteId"], &state["parameters"]["brightness"]),
        (&json!(5), &json!(4), &json!(33))
    );
    assert_eq!(state["presets"], json!([{ "id": saved["id"], "name": "evening", "effectId": 5 }]));
    assert_eq!(fixture.get("/api/v1/settings").await.1["data"]["deviceName"], "shelf");
    // The lease ended with its server, and its token is remembered.
    assert_eq!(fixture.get("/api/v1/control/status").await.1["data"]["active"], false);
    let (code, body) = fixture.post("/api/v1/effects/next", json!({}), &owned.headers()).await;
    assert_eq!((code, &body["error"]["code"]), (409, &json!("LEASE_EXPIRED")));
    let id = saved["id"].as_u64().unwrap();
    assert_eq!(fixture.post("/api/v1/effects/next", json!({}), &[]).await.0, 200);
    let loaded = fixture.post(&format!("/api/v1/presets/{id}/load"), json!({}), &[]).await;
    assert_eq!((loaded.0, &loaded.1["data"]["effectId"]), (200, &json!(5)));
    assert_eq!(
        fixture.ask(crate::fixture::WRITER, "DELETE", &format!("/api/v1/presets/{id}"), None, &[]).await.0,
        200
    );
    assert_eq!(fixture.get(&format!("/api/v1/presets/{id}")).await.1["error"]["code"], "NOT_FOUND");
    fixture.stop().await;
}

#[tokio::test]
async fn invalid_input_has_a_code_and_changes_nothing() {
    let fixture = Fixture::start(long_ttl()).await;
    let mut socket = fixture.socket().await;
    let before = fixture.status().await["state"]["revision"].clone();
    for (message, code) in [
        (json!({ "type": "setBrightness", "brightness": 256 }), "OUT_OF_RANGE"),
        (json!({ "type": "setBrightness", "brightness": "full" }), "INVALID_TYPE"),
        (json!({ "type": "setBrightness" }), "MISSING_FIELD"),
        (json!({ "type": "setBrightness", "brightness": 1, "gamma": 2 }), "INVALID_PARAMETER"),
        (json!({ "type": "setEffect", "effectId": 99 }), "OUT_OF_RANGE"),
        (
            json!({ "type": "transition.trigger", "toEffect": 1, "transitionType": "explode" }),
            "INVALID_VALUE",
        ),
        (json!({ "type": "effectPresets.load", "id": 3 }), "NOT_FOUND"),
        (json!({ "type": "auth.rotate" }), "FEATURE_DISABLED"),
        (json!({ "type": 7 }), "MISSING_FIELD"),
    ] {
        assert_eq!(socket.refused(message.clone()).await, code, "{message}");
    }
    for text in [
        "",
        "{",
        "[]",
        "null",
        "\"x\"",
        "{\"type\":\"getStatus\"}x",
        &format!("{}1{}", "[".repeat(11), "]".repeat(11)),
    ] {
        socket.text(text).await;
        let answer = socket.until(|value| value["type"] == "error").await;
        assert_eq!(answer["error"]["code"], "INVALID_JSON", "{text}");
    }
    let (code, body) = fixture.post("/api/v1/parameters", json!({ "brightness": 1, "speed": 51 }), &[]).await;
    assert_eq!(
        (code, &body["error"]["code"], &body["error"]["field"]),
        (400, &json!("OUT_OF_RANGE"), &json!("speed"))
    );
    assert_eq!(fixture.status().await["state"]["revision"], before);
    fixture.stop().await;
}

#[tokio::test]
async fn changes_are_broadcast() {
    let fixture = Fixture::start(long_ttl()).await;
    let (mut hand, mut observer) = (fixture.socket().await, fixture.socket().await);
    hand.done(json!({ "type": "batch", "operations": [
        { "type": "setEffect", "effectId": 9 }, { "type": "setSpeed", "speed": 50 }, { "type": "setPalette", "paletteId": 3 },
    ] })).await;
    let told = observer
        .until(|value| value["type"] == "device.stateChanged" && value["data"]["paletteId"] == 3)
        .await;
    assert_eq!((&told["data"]["effectId"], &told["data"]["parameters"]["speed"]), (&json!(9), &json!(50)));
    let status = observer.until(|value| value["type"] == "status").await;
    assert_eq!(status["data"]["wsClients"], 2);
    fixture.stop().await;
}

#[test]
fn the_protocol_reference_is_current() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol");
    let read = |name: &str| std::fs::read_to_string(docs.join(name)).unwrap_or_default();
    let (expected, schemas) = (tenure_control::commands_page(), tenure_control::command_schemas());
    let generated = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(generated.join("control-commands.md"), &expected).unwrap();
    std::fs::write(generated.join("control-commands.json"), &schemas).unwrap();
    let current = read("control.md").contains(&expected) && read("control-commands.json") == schemas;
    assert!(current, "docs/protocol is out of date; the expected content is in {}", generated.display());
    assert!(COMMANDS.iter().all(|command| expected.contains(&format!("`{}`", command.name))));
}

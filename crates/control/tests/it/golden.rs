//! The contract's own example of every message, `tests/golden/*.json`: requests are sent as they stand there, and answers
//! have the same members, of the same types and forms.

use control::Options;
use serde_json::{Map, Value, json};

use crate::rig::{Rig, Socket, calm};

/// An example, read from its file.
macro_rules! example {
    ($name:literal) => {
        serde_json::from_str::<Value>(include_str!(concat!("../golden/", $name, ".json"))).unwrap()
    };
}

/// Checks that `real` has exactly the members of `pattern`, with values of the same type. Numbers of an example stand for
/// any that fits 32 bits, ids and tokens for any of their form; everything else stands for itself.
fn like(pattern: &Value, real: &Value, path: &str) {
    match (pattern, real) {
        (Value::Object(expected), Value::Object(given)) => {
            let names = |map: &Map<String, Value>| {
                let mut names: Vec<_> = map.keys().cloned().collect();
                names.sort();
                names
            };
            assert_eq!(names(expected), names(given), "{path}");
            for (name, value) in expected {
                like(value, &given[name], &format!("{path}.{name}"));
            }
        }
        (Value::Number(_), Value::Number(number)) => {
            assert!(number.as_u64().is_some_and(|number| u32::try_from(number).is_ok()), "{path}: {number}");
        }
        (Value::String(expected), Value::String(given)) if is_free(path) => {
            assert_eq!(shape(expected), shape(given), "{path}: {given}");
        }
        _ => assert_eq!(pattern, real, "{path}"),
    }
}

/// Members whose text differs from run to run.
fn is_free(path: &str) -> bool {
    path.ends_with(".leaseId") || path.ends_with(".leaseToken")
}

/// A text with its letters and digits made alike.
fn shape(text: &str) -> String {
    match text.strip_prefix("cl_") {
        Some(hex) => format!(
            "cl_{}",
            hex.chars()
                .map(|c| if c.is_ascii_hexdigit() && !c.is_uppercase() { 'h' } else { '!' })
                .collect::<String>()
        ),
        None => text
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "-_".contains(c) { 'x' } else { '!' })
            .collect(),
    }
}

/// Sends a request as it stands in its example, with the id and the token of the lease there is, if it names one.
async fn send(socket: &mut Socket, mut request: Value, lease: Option<&Value>) -> Value {
    for name in ["leaseId", "leaseToken"] {
        if let (Some(member), Some(lease)) = (request.get_mut(name), lease) {
            *member = lease[name].clone();
        }
    }
    let id = request["requestId"].clone();
    socket.text(request.to_string()).await;
    socket.until(|answer| answer["requestId"] == id).await
}

#[tokio::test]
async fn every_message_is_as_its_example() {
    let rig = Rig::start(calm()).await;
    let (mut owner, mut observer) = (rig.socket().await, rig.socket().await);
    let acquired = send(&mut owner, example!("acquire.request"), None).await;
    like(&example!("acquire.acquired"), &acquired, "acquired");
    let lease = acquired["data"].clone();

    let changed = observer.event("acquired").await;
    like(&example!("state_changed"), &changed, "changed");
    let seen = send(&mut observer, example!("status.request"), None).await;
    like(&example!("status.response"), &seen, "status");
    let (code, body) = rig.get("/api/v1/control/status").await;
    assert_eq!((code, &body["success"]), (200, &json!(true)));
    like(&example!("status.response")["data"], &body["data"], "status over HTTP");

    let locked = send(&mut observer, example!("acquire.request"), None).await;
    like(&example!("acquire.locked"), &locked, "locked");
    let request = json!({ "type": "setBrightness", "brightness": 1, "requestId": "req-201" });
    let blocked = send(&mut observer, request, None).await;
    like(&example!("lock.ws"), &blocked, "blocked");
    let wrong = [("x-control-lease", "AAAAAAAAAAAAAAAAAAAAAA")];
    let (code, body) = rig.post("/api/v1/effects/set", json!({ "effectId": 1 }), &wrong).await;
    assert_eq!(code, 409);
    like(&example!("lock.rest"), &body, "blocked over HTTP");

    let ack = send(&mut owner, example!("heartbeat.request"), Some(&lease)).await;
    like(&example!("heartbeat.ack"), &ack, "ack");
    like(&of_event("heartbeat"), &observer.event("heartbeat").await, "heartbeat");

    let released = send(&mut owner, example!("release.request"), Some(&lease)).await;
    like(&example!("release.released"), &released, "released");
    // An end has its reason besides, and nothing is left of the time.
    let mut ended = of_event("released");
    ended["data"]["active"] = json!(false);
    ended["data"]["reason"] = json!("user_exit");
    let changed = observer.event("released").await;
    like(&ended, &changed, "ended");
    assert_eq!(changed["data"]["remainingMs"], 0);
    rig.stop().await;
}

/// The example of a broadcast, of another event.
fn of_event(event: &str) -> Value {
    let mut changed = example!("state_changed");
    changed["event"] = json!(event);
    changed
}

#[test]
fn the_times_of_the_examples_are_the_ones_a_device_has_unless_told_otherwise() {
    let (options, acquired) = (Options::default(), example!("acquire.acquired"));
    let data = &acquired["data"];
    assert_eq!(data["ttlMs"], json!(options.ttl_ms));
    assert_eq!(data["heartbeatIntervalMs"], json!(options.heartbeat_ms));
    assert_eq!(data["remainingMs"], json!(options.ttl_ms));
}

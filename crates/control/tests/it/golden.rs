//! The contract's example of every message, in `tests/golden/*.json`: requests are sent unchanged, and replies have the
//! same members with values of the same type and form.

use serde_json::{Map, Value, json};
use tenure_control::Options;

use crate::fixture::{Fixture, Socket, long_ttl};

/// An example, read from its file.
macro_rules! example {
    ($name:literal) => {
        serde_json::from_str::<Value>(include_str!(concat!("../golden/", $name, ".json"))).unwrap()
    };
}

/// Asserts that `real` has exactly the members of `pattern`, with values of the same type. A number matches any 32-bit
/// number, an id or token any of the same form, and everything else only itself.
fn assert_matches(pattern: &Value, real: &Value, path: &str) {
    match (pattern, real) {
        (Value::Object(expected), Value::Object(given)) => {
            let names = |map: &Map<String, Value>| {
                let mut names: Vec<_> = map.keys().cloned().collect();
                names.sort();
                names
            };
            assert_eq!(names(expected), names(given), "{path}");
            for (name, value) in expected {
                assert_matches(value, &given[name], &format!("{path}.{name}"));
            }
        }
        (Value::Number(_), Value::Number(number)) => {
            assert!(number.as_u64().is_some_and(|number| u32::try_from(number).is_ok()), "{path}: {number}");
        }
        (Value::String(expected), Value::String(given)) if is_variable(path) => {
            assert_eq!(form_of(expected), form_of(given), "{path}: {given}");
        }
        _ => assert_eq!(pattern, real, "{path}"),
    }
}

/// Whether the text of a member varies from run to run.
fn is_variable(path: &str) -> bool {
    path.ends_with(".leaseId") || path.ends_with(".leaseToken")
}

/// A string with its letters and digits normalized.
fn form_of(text: &str) -> String {
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

/// Sends an example request, with the id and token of the current lease if it has those members.
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
async fn every_message_matches_its_example() {
    let fixture = Fixture::start(long_ttl()).await;
    let (mut owner, mut observer) = (fixture.socket().await, fixture.socket().await);
    let acquired = send(&mut owner, example!("acquire.request"), None).await;
    assert_matches(&example!("acquire.acquired"), &acquired, "acquired");
    let lease = acquired["data"].clone();

    let changed = observer.event("acquired").await;
    assert_matches(&example!("state_changed"), &changed, "changed");
    let seen = send(&mut observer, example!("status.request"), None).await;
    assert_matches(&example!("status.response"), &seen, "status");
    let (code, body) = fixture.get("/api/v1/control/status").await;
    assert_eq!((code, &body["success"]), (200, &json!(true)));
    assert_matches(&example!("status.response")["data"], &body["data"], "status over HTTP");

    let locked = send(&mut observer, example!("acquire.request"), None).await;
    assert_matches(&example!("acquire.locked"), &locked, "locked");
    let request = json!({ "type": "setBrightness", "brightness": 1, "requestId": "req-201" });
    let blocked = send(&mut observer, request, None).await;
    assert_matches(&example!("lock.ws"), &blocked, "blocked");
    let wrong = [("x-control-lease", "AAAAAAAAAAAAAAAAAAAAAA")];
    let (code, body) = fixture.post("/api/v1/effects/set", json!({ "effectId": 1 }), &wrong).await;
    assert_eq!(code, 409);
    assert_matches(&example!("lock.rest"), &body, "blocked over HTTP");

    let ack = send(&mut owner, example!("heartbeat.request"), Some(&lease)).await;
    assert_matches(&example!("heartbeat.ack"), &ack, "ack");
    assert_matches(&broadcast_of("heartbeat"), &observer.event("heartbeat").await, "heartbeat");

    let released = send(&mut owner, example!("release.request"), Some(&lease)).await;
    assert_matches(&example!("release.released"), &released, "released");
    // The end of a lease adds a reason, and no time remains.
    let mut ended = broadcast_of("released");
    ended["data"]["active"] = json!(false);
    ended["data"]["reason"] = json!("user_exit");
    let changed = observer.event("released").await;
    assert_matches(&ended, &changed, "ended");
    assert_eq!(changed["data"]["remainingMs"], 0);
    fixture.stop().await;
}

/// The example broadcast with another event.
fn broadcast_of(event: &str) -> Value {
    let mut changed = example!("state_changed");
    changed["event"] = json!(event);
    changed
}

#[test]
fn the_times_of_the_examples_are_the_defaults() {
    let (options, acquired) = (Options::default(), example!("acquire.acquired"));
    let data = &acquired["data"];
    assert_eq!(data["ttlMs"], json!(options.ttl_ms));
    assert_eq!(data["heartbeatIntervalMs"], json!(options.heartbeat_ms));
    assert_eq!(data["remainingMs"], json!(options.ttl_ms));
}

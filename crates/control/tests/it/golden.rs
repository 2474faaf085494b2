//! The messages of the contract's own examples, taken as patterns: the same members, of the same types and forms.

use serde_json::{Value, json};

use crate::rig::{Rig, calm};

/// Checks that `real` has exactly the members of `pattern`, with values of the same kind. Names, tokens and numbers of an
/// example stand for any of their form; everything else stands for itself.
fn like(pattern: &Value, real: &Value, path: &str) {
    match (pattern, real) {
        (Value::Object(expected), Value::Object(given)) => {
            let names = |map: &serde_json::Map<String, Value>| {
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

const OWNER: &str = "6f0d84a3-8f49-4da8-8c70-0b8f6db5a870";

fn status() -> Value {
    json!({
        "active": true, "leaseId": "cl_9f4a2137c1d6", "scope": "global", "ownerClientName": "K1 Composer",
        "ownerInstanceId": OWNER, "ownerWsClientId": 12, "remainingMs": 2140, "ttlMs": 5000,
        "heartbeatIntervalMs": 1000, "takeoverAllowed": false,
    })
}

#[tokio::test]
async fn every_message_has_the_members_and_types_of_its_example() {
    let rig = Rig::start(calm()).await;
    let (mut owner, mut observer) = (rig.socket().await, rig.socket().await);
    let acquired = owner
        .ask(json!({ "type": "control.acquire", "clientName": "K1 Composer", "clientInstanceId": OWNER, "scope": "global" }))
        .await;
    let example = json!({
        "type": "control.acquired", "requestId": "req-1", "success": true,
        "data": {
            "active": true, "leaseId": "cl_9f4a2137c1d6", "leaseToken": "2Ab8P9Qk0kY2eP7nX7c2Yw", "scope": "global",
            "ownerWsClientId": 12, "ownerClientName": "K1 Composer", "ownerInstanceId": OWNER, "ttlMs": 5000,
            "heartbeatIntervalMs": 1000, "acquiredAtMs": 1205530, "expiresAtMs": 1210530, "remainingMs": 5000,
            "takeoverAllowed": false,
        },
    });
    like(&example, &acquired, "acquired");
    let (id, token) = (acquired["data"]["leaseId"].clone(), acquired["data"]["leaseToken"].clone());

    let changed = observer.event("acquired").await;
    like(
        &json!({ "type": "control.stateChanged", "event": "acquired", "success": true, "data": status() }),
        &changed,
        "changed",
    );
    let seen = observer.ask(json!({ "type": "control.status" })).await;
    like(
        &json!({ "type": "control.status", "requestId": "req-1", "success": true, "data": status() }),
        &seen,
        "status",
    );

    let locked = observer.ask(json!({ "type": "control.acquire", "clientName": "other" })).await;
    let error = json!({
        "code": "CONTROL_LOCKED", "message": "Control lease is held by another client", "ownerClientName": "K1 Composer",
        "remainingMs": 3120, "scope": "global",
    });
    like(
        &json!({ "type": "error", "requestId": "req-2", "success": false, "error": error }),
        &locked,
        "locked",
    );
    let blocked = observer.ask(json!({ "type": "setBrightness", "brightness": 1 })).await;
    let mut words = error.clone();
    words["message"] = json!("Command blocked by active control lease");
    like(
        &json!({ "type": "error", "requestId": "req-3", "success": false, "error": words }),
        &blocked,
        "blocked",
    );

    let ack = owner.ask(json!({ "type": "control.heartbeat", "leaseId": id, "leaseToken": token })).await;
    let example = json!({
        "type": "control.heartbeatAck", "requestId": "req-2", "success": true,
        "data": { "leaseId": "cl_9f4a2137c1d6", "ttlMs": 5000, "remainingMs": 5000, "expiresAtMs": 1211540 },
    });
    like(&example, &ack, "ack");

    let (code, body) = rig
        .post(
            "/api/v1/effects/set",
            json!({ "effectId": 1 }),
            &[("x-control-lease", "AAAAAAAAAAAAAAAAAAAAAA")],
        )
        .await;
    let mut rest = error;
    rest["requiredHeader"] = json!("X-Control-Lease");
    assert_eq!(code, 409);
    like(&json!({ "success": false, "error": rest, "timestamp": 1208600, "version": "2.0" }), &body, "rest");

    let released = owner
        .ask(json!({ "type": "control.release", "leaseId": id, "leaseToken": token, "reason": "user_exit" }))
        .await;
    let example = json!({
        "type": "control.released", "requestId": "req-3", "success": true,
        "data": { "released": true, "leaseId": "cl_9f4a2137c1d6", "releasedAtMs": 1207800, "reason": "user_exit" },
    });
    like(&example, &released, "released");
    let mut ended = status();
    ended["active"] = json!(false);
    ended["reason"] = json!("user_exit");
    let changed = observer.event("released").await;
    like(
        &json!({ "type": "control.stateChanged", "event": "released", "success": true, "data": ended }),
        &changed,
        "ended",
    );
    assert_eq!(changed["data"]["remainingMs"], 0);
    rig.stop().await;
}

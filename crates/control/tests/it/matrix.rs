//! The mutability matrix for every command and route, generated from the tables that the router uses.

use serde_json::{Value, json};
use tenure_control::{COMMANDS, Class, InputSource, Ownership, ROUTES, allowed};

use crate::fixture::{Fixture, OTHER, OwnedLease, Socket, WRITER, long_ttl};

/// A valid message of a command.
fn message(name: &str) -> Value {
    match name {
        "setPower" => json!({ "on": true }),
        "setEffect" | "effects.setCurrent" => json!({ "effectId": 2 }),
        "effects.parameters.set" => json!({ "effectId": 3, "parameters": { "cooling": 1 } }),
        "setBrightness" | "parameters.set" => json!({ "brightness": 40 }),
        "setSpeed" => json!({ "speed": 4 }),
        "setPalette" | "palettes.set" | "palettes.get" => json!({ "paletteId": 1 }),
        "transition.trigger" | "transitions.trigger" => json!({ "toEffect": 1 }),
        "effectPresets.load" | "effectPresets.delete" | "effectPresets.get" => json!({ "id": 7 }),
        "effectPresets.saveCurrent" => json!({ "id": 7, "name": "a look" }),
        "show.seek" => json!({ "positionMs": 5 }),
        "batch" => json!({ "operations": [{ "type": "nextEffect" }] }),
        "control.heartbeat" | "control.release" => json!({ "leaseId": "cl_0", "leaseToken": "x" }),
        _ => json!({}),
    }
}

/// The codes of a blocked command.
const BLOCKED: [&str; 2] = ["CONTROL_LOCKED", "LEASE_REQUIRED"];

fn is_blocked(answer: &Value) -> bool {
    let code = answer["error"]["code"].as_str().unwrap_or_default();
    // Without a lease, the stream command itself refuses, not the gate.
    BLOCKED.contains(&code)
        && !answer["error"]["message"].as_str().unwrap_or_default().contains("render stream")
}

async fn ws(socket: &mut Socket, name: &str) -> Value {
    let mut message = message(name);
    message["type"] = json!(name);
    socket.ask(message).await
}

async fn check_sockets(fixture: &Fixture, socket: &mut Socket, standing: Ownership) {
    for command in COMMANDS.iter() {
        // Lease commands would change the ownership under test.
        if command.class == Class::Control && standing == Ownership::Owner {
            continue;
        }
        if command.name == "control.acquire" {
            continue;
        }
        let before = fixture.status().await["controlCounters"]["blockedWsCommands"].as_u64().unwrap();
        let answer = ws(socket, command.name).await;
        let open = allowed(command.class, InputSource::Ws, standing);
        if command.class != Class::Control {
            assert_eq!(!is_blocked(&answer), open, "{} as {standing:?}: {answer}", command.name);
        }
        let after = fixture.status().await["controlCounters"]["blockedWsCommands"].as_u64().unwrap();
        assert_eq!(after - before, u64::from(!open), "{} as {standing:?} is counted", command.name);
    }
}

async fn check_routes(fixture: &Fixture, owned: Option<&OwnedLease>, standing: Ownership) {
    let headers = owned.map(|owned| owned.headers().to_vec()).unwrap_or_default();
    for route in ROUTES {
        let path = route.path.replace("{paletteId}", "1").replace("{id}", "7");
        let mut body = message(route.command);
        if route.path.contains("{id}") {
            body = json!({});
        }
        let body = (route.method != http::Method::GET).then_some(body);
        let (status, answer) = fixture.ask(WRITER, route.method.as_str(), &path, body, &headers).await;
        let open = allowed(route.class(), InputSource::Rest, standing);
        assert_eq!(!is_blocked(&answer), open, "{} {path} as {standing:?}: {answer}", route.method);
        assert_ne!(status, 423);
        assert!(open || status == 428, "{status} {path}");
    }
}

#[tokio::test]
async fn the_matrix_holds_for_every_command_and_route() {
    let fixture = Fixture::start(long_ttl()).await;
    let mut visitor = fixture.socket_of(OTHER).await;
    check_sockets(&fixture, &mut visitor, Ownership::Inactive).await;
    check_routes(&fixture, None, Ownership::Inactive).await;
    let mut owner = fixture.socket().await;
    let owned = owner.acquire("owner").await;
    let look = |status: Value| {
        let mut state = status["state"].clone();
        state["transport"] = json!(null);
        state
    };
    let before = look(fixture.status().await);
    check_sockets(&fixture, &mut visitor, Ownership::Other).await;
    check_routes(&fixture, None, Ownership::Other).await;
    assert_eq!(look(fixture.status().await), before, "blocked commands change nothing");
    check_sockets(&fixture, &mut owner, Ownership::Owner).await;
    check_routes(&fixture, Some(&owned), Ownership::Owner).await;
    assert_ne!(look(fixture.status().await), before, "allowed commands change the device");
    fixture.stop().await;
}

#[tokio::test]
async fn the_router_has_exactly_the_routes_of_the_table() {
    let fixture = Fixture::start(long_ttl()).await;
    for route in ROUTES {
        let path = route.path.replace("{paletteId}", "1").replace("{id}", "9");
        let (status, body) =
            fixture.ask(WRITER, route.method.as_str(), &path, Some(message(route.command)), &[]).await;
        let missing = status == 404
            && body["error"]["message"].as_str().is_some_and(|message| message.contains("path not found"));
        assert!(!missing && status != 405, "{} {}: {status}", route.method, route.path);
    }
    // Methods that are not in the table are refused, so every reachable route has a class.
    for route in ROUTES {
        let path = route.path.replace("{paletteId}", "1").replace("{id}", "9");
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let known =
                ROUTES.iter().any(|other| other.path == route.path && other.method.as_str() == method);
            // Another pattern of the table may match the same path.
            let set = path == "/api/v1/palettes/1";
            if !known && !set {
                let (status, _) = fixture.ask(WRITER, method, &path, Some(json!({})), &[]).await;
                assert!(status == 405 || status == 404, "{method} {path}: {status}");
            }
        }
    }
    fixture.stop().await;
}

#[tokio::test]
async fn an_unknown_command_is_mutating() {
    let fixture = Fixture::start(long_ttl()).await;
    let (mut owner, mut other) = (fixture.socket().await, fixture.socket_of(OTHER).await);
    for name in ["getStatusNow", "plugins.reload", "zone.enable", "info.check.subscribe.wipe", ""] {
        assert_eq!(other.refused(json!({ "type": name })).await, "INVALID_ACTION", "{name}");
    }
    owner.acquire("owner").await;
    for name in ["getStatusNow", "plugins.reload", "zone.enable", "info.check.subscribe.wipe"] {
        assert_eq!(other.refused(json!({ "type": name })).await, "CONTROL_LOCKED", "{name}");
        assert_eq!(owner.refused(json!({ "type": name })).await, "INVALID_ACTION", "{name}");
    }
    fixture.stop().await;
}

//! The mutability matrix over every command and every source, generated from the tables that the router is made of.

use control::{COMMANDS, Class, ROUTES, Source, Standing, allowed};
use serde_json::{Value, json};

use crate::rig::{OTHER, Owned, Rig, Socket, WRITER, calm};

/// What a command is given when it is asked for.
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

/// The code of the answer that counts as blocked.
const BLOCKED: [&str; 2] = ["CONTROL_LOCKED", "LEASE_REQUIRED"];

fn is_blocked(answer: &Value) -> bool {
    let code = answer["error"]["code"].as_str().unwrap_or_default();
    // A stream that nobody holds the lease for is told so by itself, not by the gate.
    BLOCKED.contains(&code)
        && !answer["error"]["message"].as_str().unwrap_or_default().contains("render stream")
}

async fn ws(socket: &mut Socket, name: &str) -> Value {
    let mut message = message(name);
    message["type"] = json!(name);
    socket.ask(message).await
}

async fn check_sockets(rig: &Rig, socket: &mut Socket, standing: Standing) {
    for command in COMMANDS.iter() {
        // The lease's own commands would end the standing that is being tested.
        if command.class == Class::Control && standing == Standing::Owner {
            continue;
        }
        if command.name == "control.acquire" {
            continue;
        }
        let before = rig.status().await["controlCounters"]["blockedWsCommands"].as_u64().unwrap();
        let answer = ws(socket, command.name).await;
        let open = allowed(command.class, Source::Ws, standing);
        if command.class != Class::Control {
            assert_eq!(!is_blocked(&answer), open, "{} as {standing:?}: {answer}", command.name);
        }
        let after = rig.status().await["controlCounters"]["blockedWsCommands"].as_u64().unwrap();
        assert_eq!(after - before, u64::from(!open), "{} as {standing:?} is counted", command.name);
    }
}

async fn check_routes(rig: &Rig, owned: Option<&Owned>, standing: Standing) {
    let headers = owned.map(|owned| owned.headers().to_vec()).unwrap_or_default();
    for route in ROUTES {
        let path = route.path.replace("{paletteId}", "1").replace("{id}", "7");
        let mut body = message(route.command);
        if route.path.contains("{id}") {
            body = json!({});
        }
        let body = (route.method != http::Method::GET).then_some(body);
        let (status, answer) = rig.ask(WRITER, route.method.as_str(), &path, body, &headers).await;
        let open = allowed(route.class(), Source::Rest, standing);
        assert_eq!(!is_blocked(&answer), open, "{} {path} as {standing:?}: {answer}", route.method);
        assert_ne!(status, 423);
        assert!(open || status == 428, "{status} {path}");
    }
}

#[tokio::test]
async fn the_matrix_holds_for_every_command_and_route() {
    let rig = Rig::start(calm()).await;
    let mut visitor = rig.socket_of(OTHER).await;
    check_sockets(&rig, &mut visitor, Standing::Inactive).await;
    check_routes(&rig, None, Standing::Inactive).await;
    let mut owner = rig.socket().await;
    let owned = owner.acquire("owner").await;
    let look = |status: Value| {
        let mut state = status["state"].clone();
        state["transport"] = json!(null);
        state
    };
    let before = look(rig.status().await);
    check_sockets(&rig, &mut visitor, Standing::Other).await;
    check_routes(&rig, None, Standing::Other).await;
    assert_eq!(look(rig.status().await), before, "what was blocked changed nothing");
    check_sockets(&rig, &mut owner, Standing::Owner).await;
    check_routes(&rig, Some(&owned), Standing::Owner).await;
    assert_ne!(look(rig.status().await), before, "what was allowed changed something");
    rig.stop().await;
}

#[tokio::test]
async fn the_router_has_every_route_of_the_table_and_no_other() {
    let rig = Rig::start(calm()).await;
    for route in ROUTES {
        let path = route.path.replace("{paletteId}", "1").replace("{id}", "9");
        let (status, body) =
            rig.ask(WRITER, route.method.as_str(), &path, Some(message(route.command)), &[]).await;
        let missing = status == 404
            && body["error"]["message"].as_str().is_some_and(|words| words.contains("nothing at this path"));
        assert!(!missing && status != 405, "{} {}: {status}", route.method, route.path);
    }
    // Every method that the table does not have is refused, so nothing unclassed can be reached.
    for route in ROUTES {
        let path = route.path.replace("{paletteId}", "1").replace("{id}", "9");
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let known =
                ROUTES.iter().any(|other| other.path == route.path && other.method.as_str() == method);
            // Another pattern of the table may match the same path.
            let set = path == "/api/v1/palettes/1";
            if !known && !set {
                let (status, _) = rig.ask(WRITER, method, &path, Some(json!({})), &[]).await;
                assert!(status == 405 || status == 404, "{method} {path}: {status}");
            }
        }
    }
    rig.stop().await;
}

#[tokio::test]
async fn an_unknown_command_counts_as_a_change() {
    let rig = Rig::start(calm()).await;
    let (mut owner, mut other) = (rig.socket().await, rig.socket_of(OTHER).await);
    for name in ["getStatusNow", "plugins.reload", "zone.enable", "info.check.subscribe.wipe", ""] {
        assert_eq!(other.refused(json!({ "type": name })).await, "INVALID_ACTION", "{name}");
    }
    owner.acquire("owner").await;
    for name in ["getStatusNow", "plugins.reload", "zone.enable", "info.check.subscribe.wipe"] {
        assert_eq!(other.refused(json!({ "type": name })).await, "CONTROL_LOCKED", "{name}");
        assert_eq!(owner.refused(json!({ "type": name })).await, "INVALID_ACTION", "{name}");
    }
    rig.stop().await;
}

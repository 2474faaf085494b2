//! The acceptance checks of the lease.

use serde_json::json;

use crate::rig::{LIMIT, OTHER, Owned, READER, Rig, STRANGER, calm, eventually, hasty, text};

fn heartbeat(owned: &Owned) -> serde_json::Value {
    json!({ "type": "control.heartbeat", "leaseId": owned.id, "leaseToken": owned.token })
}

fn release(owned: &Owned) -> serde_json::Value {
    json!({ "type": "control.release", "leaseId": owned.id, "leaseToken": owned.token })
}

#[tokio::test]
async fn acquire_gives_a_token_to_its_owner_and_the_news_to_everybody() {
    let rig = Rig::start(calm()).await;
    let (mut owner, mut observer) = (rig.socket().await, rig.socket_of(READER).await);
    owner
        .text(json!({ "type": "control.acquire", "requestId": "a", "clientName": "phone" }).to_string())
        .await;
    let first = owner.until(|_| true).await;
    assert_eq!(first["type"], "control.acquired", "the owner hears its answer first");
    let second = owner.event("acquired").await;
    assert!(second["data"].get("leaseToken").is_none(), "{second}");
    let data = &first["data"];
    let token = text(&data["leaseToken"]);
    assert_eq!(token.len(), 22);
    assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
    assert_eq!(data["remainingMs"], 120_000);
    assert_eq!(data["ownerInstanceId"], "", "what is missing is empty");
    let heard = observer.event("acquired").await;
    assert!(!heard.to_string().contains(&token));
    assert_eq!(heard["data"]["ownerClientName"], "phone");
    let again = owner.done(json!({ "type": "control.acquire", "clientName": "phone" })).await;
    assert_eq!((&again["leaseId"], &again["leaseToken"]), (&data["leaseId"], &data["leaseToken"]));
    assert_eq!(again["acquiredAtMs"], data["acquiredAtMs"]);
    assert!(again["expiresAtMs"].as_u64() >= data["expiresAtMs"].as_u64());
    assert_eq!(observer.event("acquired").await["data"]["leaseId"], data["leaseId"], "told again");
    rig.stop().await;
}

#[tokio::test]
async fn a_second_client_is_locked_out_and_told_for_how_long() {
    let rig = Rig::start(calm()).await;
    let (mut owner, mut second) = (rig.socket().await, rig.socket_of(OTHER).await);
    let owned = owner.acquire("phone").await;
    for takeover in [json!({}), json!({ "takeover": true, "force": true })] {
        let mut message = json!({ "type": "control.acquire", "clientName": "tablet" });
        message.as_object_mut().unwrap().extend(takeover.as_object().unwrap().clone());
        let refused = second.ask(message).await;
        let error = &refused["error"];
        assert_eq!(
            (&error["code"], &error["ownerClientName"], &error["scope"]),
            (&json!("CONTROL_LOCKED"), &json!("phone"), &json!("global"))
        );
        assert!((1..=120_000).contains(&error["remainingMs"].as_u64().unwrap()), "{error}");
    }
    assert_eq!(
        rig.status().await["controlCounters"]["blockedWsCommands"],
        0,
        "a refused acquire is no blocked command"
    );
    assert_eq!(
        second.refused(json!({ "type": "control.acquire", "scope": "zone:1" })).await,
        "INVALID_VALUE"
    );
    assert_eq!(
        owner.refused(json!({ "type": "control.acquire", "clientName": "n".repeat(65) })).await,
        "INVALID_VALUE"
    );
    owner.done(heartbeat(&owned)).await;
    rig.stop().await;
}

#[tokio::test]
async fn heartbeats_prolong_for_the_owner_alone() {
    let rig = Rig::start(calm()).await;
    let (mut owner, mut other) = (rig.socket().await, rig.socket_of(OTHER).await);
    assert_eq!(
        other.refused(json!({ "type": "control.heartbeat", "leaseId": "cl_1", "leaseToken": "x" })).await,
        "LEASE_EXPIRED"
    );
    assert_eq!(
        other.refused(json!({ "type": "control.heartbeat", "leaseId": "cl_1" })).await,
        "MISSING_FIELD"
    );
    let owned = owner.acquire("phone").await;
    let ack = owner.done(heartbeat(&owned)).await;
    assert_eq!((&ack["remainingMs"], &ack["ttlMs"]), (&json!(120_000), &json!(120_000)));
    assert_eq!(other.event("heartbeat").await["data"]["active"], true, "heartbeats are told");
    assert_eq!(other.refused(heartbeat(&owned)).await, "CONTROL_LOCKED", "the right token on another socket");
    assert_eq!(
        owner.refused(heartbeat(&Owned { token: "A".repeat(22), ..owned.clone() })).await,
        "LEASE_INVALID"
    );
    assert_eq!(
        owner.refused(heartbeat(&Owned { id: "cl_000000000000".into(), ..owned.clone() })).await,
        "LEASE_INVALID"
    );
    rig.stop().await;
}

#[tokio::test]
async fn silence_ends_the_lease_and_its_token_with_it() {
    let rig = Rig::start(hasty()).await;
    let (mut owner, mut observer) = (rig.socket().await, rig.socket_of(OTHER).await);
    let owned = owner.acquire("phone").await;
    let ended = observer.event("expired").await;
    let data = &ended["data"];
    assert_eq!(
        (&data["active"], &data["remainingMs"], &data["reason"]),
        (&json!(false), &json!(0), &json!("heartbeat_timeout"))
    );
    assert_eq!((&data["leaseId"], &data["ownerClientName"]), (&json!(owned.id), &json!("phone")));
    assert_eq!(owner.refused(heartbeat(&owned)).await, "LEASE_EXPIRED");
    let (code, body) = rig.post("/api/v1/effects/set", json!({ "effectId": 1 }), &owned.headers()).await;
    assert_eq!((code, &body["error"]["code"]), (409, &json!("LEASE_EXPIRED")));
    let (code, _) = rig
        .post(
            "/api/v1/effects/set",
            json!({ "effectId": 1 }),
            &[("x-control-lease", "AAAAAAAAAAAAAAAAAAAAAA")],
        )
        .await;
    assert_eq!(code, 200, "any other token is none");
    let (code, _) = rig.post("/api/v1/effects/set", json!({ "effectId": 2 }), &[]).await;
    assert_eq!(code, 200);
    // Expired, the lease is inactive in every status, with every field there.
    let status = rig.get("/api/v1/control/status").await.1;
    assert_eq!((&status["data"]["active"], &status["data"]["leaseId"]), (&json!(false), &json!("")));
    rig.stop().await;
}

#[tokio::test]
async fn a_connection_that_drops_frees_the_lease_at_once() {
    let rig = Rig::start(calm()).await;
    let (mut owner, mut next) = (rig.socket().await, rig.socket_of(OTHER).await);
    let owned = owner.acquire("phone").await;
    drop(owner);
    let ended = next.event("released").await;
    assert_eq!(
        (&ended["data"]["reason"], &ended["data"]["active"]),
        (&json!("ws_disconnect"), &json!(false))
    );
    let taken = next.acquire("tablet").await;
    assert_ne!((&taken.id, &taken.token), (&owned.id, &owned.token));
    // Now somebody else holds: the old token is a wrong one.
    let (code, body) =
        rig.post("/api/v1/effects/set", json!({ "effectId": 1 }), &[("x-control-lease", &owned.token)]).await;
    assert_eq!((code, &body["error"]["code"]), (409, &json!("CONTROL_LOCKED")));
    rig.stop().await;
}

#[tokio::test]
async fn release_can_be_repeated_and_is_the_owners() {
    let rig = Rig::start(calm()).await;
    let (mut owner, mut other) = (rig.socket().await, rig.socket_of(OTHER).await);
    let owned = owner.acquire("phone").await;
    assert_eq!(other.refused(release(&owned)).await, "LEASE_INVALID", "the right token on another socket");
    assert_eq!(
        owner.refused(json!({ "type": "control.release", "leaseId": owned.id })).await,
        "MISSING_FIELD"
    );
    let first = owner.done(release(&owned)).await;
    assert_eq!((&first["released"], &first["reason"]), (&json!(true), &json!("user_release")));
    assert_eq!(owner.done(release(&owned)).await["released"], true);
    assert_eq!(other.event("released").await["data"]["reason"], "user_release");
    let taken = other.acquire("tablet").await;
    assert_eq!(owner.refused(release(&owned)).await, "LEASE_INVALID", "somebody else holds now");
    other.done(heartbeat(&taken)).await;
    rig.stop().await;
}

#[tokio::test]
async fn time_that_wraps_ends_no_lease_early() {
    let offset = u32::MAX - 300;
    let rig = Rig::start(control::Options { uptime_offset: offset, ..calm() }).await;
    let mut owner = rig.socket().await;
    let data = owner.done(json!({ "type": "control.acquire" })).await;
    let (acquired, expires) = (data["acquiredAtMs"].as_u64().unwrap(), data["expiresAtMs"].as_u64().unwrap());
    assert!(acquired > expires || acquired < 200_000, "{acquired} {expires}");
    let owned = Owned { id: text(&data["leaseId"]), token: text(&data["leaseToken"]) };
    eventually("the counter wrapped", async || {
        rig.get("/api/v1/control/status").await.1["timestamp"].as_u64().unwrap() < 1_000_000
    })
    .await;
    let left = owner.done(json!({ "type": "control.status" })).await["remainingMs"].as_u64().unwrap();
    assert!((60_000..=120_000).contains(&left), "{left}");
    owner.done(heartbeat(&owned)).await;
    rig.stop().await;
}

#[tokio::test]
async fn scopes_come_before_the_lease() {
    let rig = Rig::start(calm()).await;
    assert_eq!(rig.handshake("").await, 401);
    assert_eq!(rig.handshake("nobody").await, 401);
    assert_eq!(rig.handshake(STRANGER).await, 403);
    let (mut owner, mut reader) = (rig.socket().await, rig.socket_of(READER).await);
    owner.acquire("phone").await;
    assert_eq!(reader.refused(json!({ "type": "control.acquire" })).await, "UNAUTHORIZED");
    assert_eq!(reader.refused(json!({ "type": "setBrightness", "brightness": 1 })).await, "UNAUTHORIZED");
    reader.done(json!({ "type": "device.getStatus" })).await;
    for (token, expected) in [("", 401), (STRANGER, 403), (READER, 403)] {
        let (code, body) =
            rig.ask(token, "POST", "/api/v1/effects/set", Some(json!({ "effectId": 1 })), &[]).await;
        assert_eq!(
            (code, &body["error"]["code"], &body["success"]),
            (expected, &json!("UNAUTHORIZED"), &json!(false)),
            "{token}"
        );
    }
    assert_eq!(rig.ask(READER, "GET", "/api/v1/control/status", None, &[]).await.0, 200);
    assert_eq!(rig.status().await["controlCounters"]["blockedRestRequests"], 0);
    assert!(LIMIT.as_secs() > 1);
    rig.stop().await;
}

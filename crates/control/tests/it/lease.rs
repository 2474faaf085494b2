//! Acceptance tests of the lease.

use serde_json::json;

use crate::fixture::{
    Fixture, LIMIT, OTHER, OwnedLease, READER, STRANGER, eventually, long_ttl, short_ttl, text,
};

fn heartbeat(owned: &OwnedLease) -> serde_json::Value {
    json!({ "type": "control.heartbeat", "leaseId": owned.id, "leaseToken": owned.token })
}

fn release(owned: &OwnedLease) -> serde_json::Value {
    json!({ "type": "control.release", "leaseId": owned.id, "leaseToken": owned.token })
}

#[tokio::test]
async fn acquire_sends_the_token_to_the_owner_and_a_broadcast_to_all() {
    let fixture = Fixture::start(long_ttl()).await;
    let (mut owner, mut observer) = (fixture.socket().await, fixture.socket_of(READER).await);
    owner
        .text(json!({ "type": "control.acquire", "requestId": "a", "clientName": "phone" }).to_string())
        .await;
    let first = owner.until(|_| true).await;
    assert_eq!(first["type"], "control.acquired", "the owner receives its reply first");
    let second = owner.event("acquired").await;
    assert!(second["data"].get("leaseToken").is_none(), "{second}");
    let data = &first["data"];
    let token = text(&data["leaseToken"]);
    assert_eq!(token.len(), 22);
    assert!(token.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
    assert_eq!(data["remainingMs"], 120_000);
    assert_eq!(data["ownerInstanceId"], "", "a missing field is empty");
    let heard = observer.event("acquired").await;
    assert!(!heard.to_string().contains(&token));
    assert_eq!(heard["data"]["ownerClientName"], "phone");
    let again = owner.done(json!({ "type": "control.acquire", "clientName": "phone" })).await;
    assert_eq!((&again["leaseId"], &again["leaseToken"]), (&data["leaseId"], &data["leaseToken"]));
    assert_eq!(again["acquiredAtMs"], data["acquiredAtMs"]);
    assert!(again["expiresAtMs"].as_u64() >= data["expiresAtMs"].as_u64());
    assert_eq!(observer.event("acquired").await["data"]["leaseId"], data["leaseId"], "broadcast again");
    fixture.stop().await;
}

#[tokio::test]
async fn a_second_client_is_refused_with_the_remaining_time() {
    let fixture = Fixture::start(long_ttl()).await;
    let (mut owner, mut second) = (fixture.socket().await, fixture.socket_of(OTHER).await);
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
        fixture.status().await["controlCounters"]["blockedWsCommands"],
        0,
        "a refused acquire is not a blocked command"
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
    fixture.stop().await;
}

#[tokio::test]
async fn heartbeats_extend_the_lease_only_for_the_owner() {
    let fixture = Fixture::start(long_ttl()).await;
    let (mut owner, mut other) = (fixture.socket().await, fixture.socket_of(OTHER).await);
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
    assert_eq!(other.event("heartbeat").await["data"]["active"], true, "heartbeats are broadcast");
    assert_eq!(
        other.refused(heartbeat(&owned)).await,
        "CONTROL_LOCKED",
        "the correct token on another connection"
    );
    assert_eq!(
        owner.refused(heartbeat(&OwnedLease { token: "A".repeat(22), ..owned.clone() })).await,
        "LEASE_INVALID"
    );
    assert_eq!(
        owner.refused(heartbeat(&OwnedLease { id: "cl_000000000000".into(), ..owned.clone() })).await,
        "LEASE_INVALID"
    );
    fixture.stop().await;
}

#[tokio::test]
async fn a_lease_without_heartbeats_expires_with_its_token() {
    let fixture = Fixture::start(short_ttl()).await;
    let (mut owner, mut observer) = (fixture.socket().await, fixture.socket_of(OTHER).await);
    let owned = owner.acquire("phone").await;
    let ended = observer.event("expired").await;
    let data = &ended["data"];
    assert_eq!(
        (&data["active"], &data["remainingMs"], &data["reason"]),
        (&json!(false), &json!(0), &json!("heartbeat_timeout"))
    );
    assert_eq!((&data["leaseId"], &data["ownerClientName"]), (&json!(owned.id), &json!("phone")));
    assert_eq!(owner.refused(heartbeat(&owned)).await, "LEASE_EXPIRED");
    let (code, body) = fixture.post("/api/v1/effects/set", json!({ "effectId": 1 }), &owned.headers()).await;
    assert_eq!((code, &body["error"]["code"]), (409, &json!("LEASE_EXPIRED")));
    let (code, _) = fixture
        .post(
            "/api/v1/effects/set",
            json!({ "effectId": 1 }),
            &[("x-control-lease", "AAAAAAAAAAAAAAAAAAAAAA")],
        )
        .await;
    assert_eq!(code, 200, "any other token is ignored");
    let (code, _) = fixture.post("/api/v1/effects/set", json!({ "effectId": 2 }), &[]).await;
    assert_eq!(code, 200);
    // An expired lease is inactive in every status, with every field present.
    let status = fixture.get("/api/v1/control/status").await.1;
    assert_eq!((&status["data"]["active"], &status["data"]["leaseId"]), (&json!(false), &json!("")));
    fixture.stop().await;
}

#[tokio::test]
async fn a_dropped_connection_releases_the_lease_at_once() {
    let fixture = Fixture::start(long_ttl()).await;
    let (mut owner, mut next) = (fixture.socket().await, fixture.socket_of(OTHER).await);
    let owned = owner.acquire("phone").await;
    drop(owner);
    let ended = next.event("released").await;
    assert_eq!(
        (&ended["data"]["reason"], &ended["data"]["active"]),
        (&json!("ws_disconnect"), &json!(false))
    );
    let taken = next.acquire("tablet").await;
    assert_ne!((&taken.id, &taken.token), (&owned.id, &owned.token));
    // Another client owns the lease now: the old token is wrong.
    let (code, body) = fixture
        .post("/api/v1/effects/set", json!({ "effectId": 1 }), &[("x-control-lease", &owned.token)])
        .await;
    assert_eq!((code, &body["error"]["code"]), (409, &json!("CONTROL_LOCKED")));
    fixture.stop().await;
}

#[tokio::test]
async fn release_is_idempotent_and_only_for_the_owner() {
    let fixture = Fixture::start(long_ttl()).await;
    let (mut owner, mut other) = (fixture.socket().await, fixture.socket_of(OTHER).await);
    let owned = owner.acquire("phone").await;
    assert_eq!(
        other.refused(release(&owned)).await,
        "LEASE_INVALID",
        "the correct token on another connection"
    );
    assert_eq!(
        owner.refused(json!({ "type": "control.release", "leaseId": owned.id })).await,
        "MISSING_FIELD"
    );
    let first = owner.done(release(&owned)).await;
    assert_eq!((&first["released"], &first["reason"]), (&json!(true), &json!("user_release")));
    assert_eq!(owner.done(release(&owned)).await["released"], true);
    assert_eq!(other.event("released").await["data"]["reason"], "user_release");
    let taken = other.acquire("tablet").await;
    assert_eq!(owner.refused(release(&owned)).await, "LEASE_INVALID", "another client owns the lease");
    other.done(heartbeat(&taken)).await;
    fixture.stop().await;
}

#[tokio::test]
async fn a_wrapping_clock_does_not_end_a_lease_early() {
    let offset = u32::MAX - 300;
    let fixture = Fixture::start(tenure_control::Options { uptime_offset: offset, ..long_ttl() }).await;
    let mut owner = fixture.socket().await;
    let data = owner.done(json!({ "type": "control.acquire" })).await;
    let (acquired, expires) = (data["acquiredAtMs"].as_u64().unwrap(), data["expiresAtMs"].as_u64().unwrap());
    assert!(acquired > expires || acquired < 200_000, "{acquired} {expires}");
    let owned = OwnedLease { id: text(&data["leaseId"]), token: text(&data["leaseToken"]) };
    eventually("the counter wrapped", async || {
        fixture.get("/api/v1/control/status").await.1["timestamp"].as_u64().unwrap() < 1_000_000
    })
    .await;
    let left = owner.done(json!({ "type": "control.status" })).await["remainingMs"].as_u64().unwrap();
    assert!((60_000..=120_000).contains(&left), "{left}");
    owner.done(heartbeat(&owned)).await;
    fixture.stop().await;
}

#[tokio::test]
async fn scopes_are_checked_before_the_lease() {
    let fixture = Fixture::start(long_ttl()).await;
    assert_eq!(fixture.handshake("").await, 401);
    assert_eq!(fixture.handshake("unknown").await, 401);
    assert_eq!(fixture.handshake(STRANGER).await, 403);
    let (mut owner, mut reader) = (fixture.socket().await, fixture.socket_of(READER).await);
    owner.acquire("phone").await;
    assert_eq!(reader.refused(json!({ "type": "control.acquire" })).await, "UNAUTHORIZED");
    assert_eq!(reader.refused(json!({ "type": "setBrightness", "brightness": 1 })).await, "UNAUTHORIZED");
    reader.done(json!({ "type": "device.getStatus" })).await;
    for (token, expected) in [("", 401), (STRANGER, 403), (READER, 403)] {
        let (code, body) =
            fixture.ask(token, "POST", "/api/v1/effects/set", Some(json!({ "effectId": 1 })), &[]).await;
        assert_eq!(
            (code, &body["error"]["code"], &body["success"]),
            (expected, &json!("UNAUTHORIZED"), &json!(false)),
            "{token}"
        );
    }
    assert_eq!(fixture.ask(READER, "GET", "/api/v1/control/status", None, &[]).await.0, 200);
    assert_eq!(fixture.status().await["controlCounters"]["blockedRestRequests"], 0);
    assert!(LIMIT.as_secs() > 1);
    fixture.stop().await;
}

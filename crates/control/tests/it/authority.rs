//! One process serves a device, on any store: the gate, standbys, predecessors and operators.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tenure_control::{GATE, LEASE, Options};
use tenure_lease::{Key, Phase, Revoke, Store};
use tenure_testkit::RedisServer;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::fixture::{Fixture, OTHER, eventually, long_ttl};

async fn memory() -> Arc<dyn Store> {
    tenure_store::Store::open("memory:").await.unwrap().into()
}

/// A connection to Redis. Each simulates another machine.
async fn redis(server: &RedisServer) -> Arc<dyn Store> {
    tenure_store::Store::open(&format!("{}?quarantine_ms=0", server.url())).await.unwrap().into()
}

#[tokio::test]
async fn the_kernel_has_the_lease_and_the_serving_process() {
    let store = memory().await;
    let fixture = Fixture::on(store.clone(), long_ttl(), |router, _| router).await;
    let key = |text| Key::new(text).unwrap();
    assert_eq!(store.inspect(&key(GATE)).await.unwrap().phase, Phase::Held);
    assert_eq!(store.inspect(&key(LEASE)).await.unwrap().phase, Phase::Free);
    let mut owner = fixture.socket().await;
    let owned = owner.acquire("phone").await;
    let status = store.inspect(&key(LEASE)).await.unwrap();
    assert_eq!(status.phase, Phase::Held);
    assert!(status.meta.as_str().contains("phone") && !status.meta.as_str().contains(&owned.token));
    let left = status.remaining.unwrap();
    assert!(
        left > Duration::from_secs(60) && left <= Duration::from_secs(121),
        "one second longer than the owner's: {left:?}"
    );
    // The token is the kernel's: the store accepts it as proof of the reign.
    let token = tenure_lease::Token::parse(&owned.token).unwrap();
    assert!(matches!(store.verify(&key(LEASE), &token).await.unwrap(), tenure_lease::Verified::Live { .. }));
    owner.done(json!({ "type": "control.release", "leaseId": owned.id, "leaseToken": owned.token })).await;
    eventually("the lease is released", async || {
        store.inspect(&key(LEASE)).await.unwrap().phase == Phase::Free
    })
    .await;
    fixture.stop().await;
    assert_eq!(
        store.inspect(&key(GATE)).await.unwrap().phase,
        Phase::Free,
        "a clean shutdown releases the device"
    );
}

/// Revokes a lease like an operator.
async fn revoke(store: &dyn Store, key: &str, delay: Duration) {
    let key = Key::new(key).unwrap();
    let generation = store.inspect(&key).await.unwrap().generation.unwrap();
    store
        .revoke(Revoke { key, generation, delay: Some(delay), reason: tenure_lease::RevokeReason::default() })
        .await
        .unwrap();
}

async fn assert_revoke_is_broadcast(store: Arc<dyn Store>) {
    let fixture = Fixture::on(store.clone(), long_ttl(), |router, _| router).await;
    let (mut owner, mut other) = (fixture.socket().await, fixture.socket_of(OTHER).await);
    let owned = owner.acquire("phone").await;
    revoke(&*store, LEASE, Duration::ZERO).await;
    let ended = other.event("released").await;
    assert_eq!((&ended["data"]["reason"], &ended["data"]["active"]), (&json!("revoked"), &json!(false)));
    let refused = owner
        .refused(json!({ "type": "control.heartbeat", "leaseId": owned.id, "leaseToken": owned.token }))
        .await;
    assert_eq!(refused, "LEASE_EXPIRED");
    other.acquire("tablet").await;
    fixture.stop().await;
}

#[tokio::test]
async fn an_operator_s_revoke_is_broadcast() {
    assert_revoke_is_broadcast(memory().await).await;
}

#[tokio::test]
async fn an_operator_s_revoke_on_redis_is_broadcast() {
    let server = RedisServer::start().unwrap();
    assert_revoke_is_broadcast(redis(&server).await).await;
}

#[tokio::test]
async fn one_process_serves_and_the_others_stand_by() {
    let server = RedisServer::start().unwrap();
    let options = Options { gate_ttl: Duration::from_secs(30), ..long_ttl() };
    let first = Fixture::on(redis(&server).await, options.clone(), |router, _| router).await;
    let second = Fixture::standby(redis(&server).await, options, |router, _| router).await;
    let mut owner = first.socket().await;
    let owned = owner.acquire("phone").await;
    owner.done(json!({ "type": "setBrightness", "brightness": 19 })).await;
    for path in ["/api/v1/control/status", "/api/v1/device/status"] {
        let (code, body) = second.get(path).await;
        assert_eq!((code, &body["error"]["code"]), (503, &json!("SYSTEM_NOT_READY")), "{path}");
    }
    assert_eq!(second.post("/api/v1/effects/next", json!({}), &owned.headers()).await.0, 503);
    assert_eq!(second.handshake(OTHER).await, 503);
    assert!(!second.control.is_serving());
    first.stop().await;
    assert_eq!(
        owner.event("released").await["data"]["reason"],
        "server_shutdown",
        "queued broadcasts are delivered"
    );
    assert_eq!(owner.closed().await, Some(CloseCode::Restart));
    crate::fixture::within(second.control.serving()).await;
    let status = second.status().await;
    assert_eq!(
        (&status["controlLease"]["active"], &status["state"]["parameters"]["brightness"]),
        (&json!(false), &json!(19))
    );
    let mut next = second.socket().await;
    next.acquire("tablet").await;
    second.stop().await;
}

#[tokio::test]
async fn a_server_that_loses_the_device_closes_every_connection() {
    let store = memory().await;
    let fixture = Fixture::on(store.clone(), long_ttl(), |router, _| router).await;
    let mut owner = fixture.socket().await;
    owner.acquire("phone").await;
    revoke(&*store, GATE, Duration::from_secs(60)).await;
    assert_eq!(owner.event("released").await["data"]["reason"], "server_lost");
    assert_eq!(owner.closed().await, Some(CloseCode::Restart));
    assert_eq!(fixture.get("/api/v1/device/status").await.0, 503);
    assert_eq!(fixture.handshake(OTHER).await, 503);
    fixture.stop().await;
}

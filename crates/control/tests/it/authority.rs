//! One process serves a device, on whatever store: the gate, standbys, predecessors, operators.

use std::sync::Arc;
use std::time::Duration;

use control::{GATE, LEASE, Options};
use lease::{Key, Phase, Revoke, Store};
use serde_json::json;
use testkit::RedisServer;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::rig::{OTHER, Rig, calm, eventually};

async fn memory() -> Arc<dyn Store> {
    lease_store::Store::open("memory:").await.unwrap().into()
}

/// Two connections to one Redis, as two machines would have.
async fn redis(server: &RedisServer) -> Arc<dyn Store> {
    lease_store::Store::open(&format!("{}?quarantine_ms=0", server.url())).await.unwrap().into()
}

#[tokio::test]
async fn the_kernel_knows_the_lease_and_who_serves() {
    let store = memory().await;
    let rig = Rig::on(store.clone(), calm(), |router, _| router).await;
    let key = |text| Key::new(text).unwrap();
    assert_eq!(store.inspect(&key(GATE)).await.unwrap().phase, Phase::Held);
    assert_eq!(store.inspect(&key(LEASE)).await.unwrap().phase, Phase::Free);
    let mut owner = rig.socket().await;
    let owned = owner.acquire("phone").await;
    let status = store.inspect(&key(LEASE)).await.unwrap();
    assert_eq!(status.phase, Phase::Held);
    assert!(status.meta.as_str().contains("phone") && !status.meta.as_str().contains(&owned.token));
    let left = status.remaining.unwrap();
    assert!(
        left > Duration::from_secs(60) && left <= Duration::from_secs(121),
        "a second longer than the owner's: {left:?}"
    );
    // The token is the kernel's own: the store takes it as the proof of the reign.
    let token = lease::Token::parse(&owned.token).unwrap();
    assert!(matches!(store.verify(&key(LEASE), &token).await.unwrap(), lease::Verified::Live { .. }));
    owner.done(json!({ "type": "control.release", "leaseId": owned.id, "leaseToken": owned.token })).await;
    eventually("it is given back", async || store.inspect(&key(LEASE)).await.unwrap().phase == Phase::Free)
        .await;
    rig.stop().await;
    assert_eq!(
        store.inspect(&key(GATE)).await.unwrap().phase,
        Phase::Free,
        "an orderly end gives the device back"
    );
}

/// What an operator does.
async fn revoke(store: &dyn Store, key: &str, delay: Duration) {
    let key = Key::new(key).unwrap();
    let generation = store.inspect(&key).await.unwrap().generation.unwrap();
    store
        .revoke(Revoke { key, generation, delay: Some(delay), reason: lease::Motive::default() })
        .await
        .unwrap();
}

async fn revoke_is_told(store: Arc<dyn Store>) {
    let rig = Rig::on(store.clone(), calm(), |router, _| router).await;
    let (mut owner, mut other) = (rig.socket().await, rig.socket_of(OTHER).await);
    let owned = owner.acquire("phone").await;
    revoke(&*store, LEASE, Duration::ZERO).await;
    let ended = other.event("released").await;
    assert_eq!((&ended["data"]["reason"], &ended["data"]["active"]), (&json!("revoked"), &json!(false)));
    let refused = owner
        .refused(json!({ "type": "control.heartbeat", "leaseId": owned.id, "leaseToken": owned.token }))
        .await;
    assert_eq!(refused, "LEASE_EXPIRED");
    other.acquire("tablet").await;
    rig.stop().await;
}

#[tokio::test]
async fn an_operators_revoke_is_told_to_everybody() {
    revoke_is_told(memory().await).await;
}

#[tokio::test]
async fn an_operators_revoke_on_redis_is_told_to_everybody() {
    let server = RedisServer::start().unwrap();
    revoke_is_told(redis(&server).await).await;
}

#[tokio::test]
async fn one_process_serves_and_the_others_stand_by() {
    let server = RedisServer::start().unwrap();
    let options = Options { gate_ttl: Duration::from_secs(30), ..calm() };
    let first = Rig::on(redis(&server).await, options.clone(), |router, _| router).await;
    let second = Rig::standby(redis(&server).await, options, |router, _| router).await;
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
    assert_eq!(owner.event("released").await["data"]["reason"], "server_shutdown", "last words");
    assert_eq!(owner.closed().await, Some(CloseCode::Restart));
    crate::rig::within(second.control.serving()).await;
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
async fn a_server_that_loses_the_device_ends_everything_and_says_so() {
    let store = memory().await;
    let rig = Rig::on(store.clone(), calm(), |router, _| router).await;
    let mut owner = rig.socket().await;
    owner.acquire("phone").await;
    revoke(&*store, GATE, Duration::from_secs(60)).await;
    assert_eq!(owner.event("released").await["data"]["reason"], "server_lost");
    assert_eq!(owner.closed().await, Some(CloseCode::Restart));
    assert_eq!(rig.get("/api/v1/device/status").await.0, 503);
    assert_eq!(rig.handshake(OTHER).await, 503);
    rig.stop().await;
}

//! Heartbeats and expiry.

use std::sync::atomic::Ordering;
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::Value;
use tenure_service::{Clock, ClockControl};
use tenure_session::UnixMs;

use crate::api::{TestApi, TestApiBuilder};

async fn api() -> (TestApi, ClockControl) {
    let (clock, hand) = Clock::manual();
    (TestApiBuilder::new().with(|options| options.clock = clock).build().await, hand)
}

async fn expiry(api: &TestApi, id: &str) -> Value {
    let beat = api.heartbeat(id).await;
    assert_eq!((beat.status, &beat.body["acknowledged"]), (StatusCode::OK, &Value::Bool(true)), "{beat:?}");
    assert_eq!(
        (&beat.body["sessionId"], &beat.headers["cache-control"]),
        (&Value::from(id), &"no-store".parse().unwrap())
    );
    let shown = api.get(&format!("/sessions/{id}")).await;
    assert_eq!(shown.body["leaseExpiresAt"], beat.body["leaseExpiresAt"], "the view has the same expiry");
    beat.body["leaseExpiresAt"].clone()
}

#[tokio::test]
async fn a_heartbeat_extends_once_per_interval_and_never_shortens() {
    let (api, hand) = api().await;
    let id = api.start_channel().await;
    assert_eq!(api.log.session(&id).created, UnixMs(1_900_000_000_000));
    let first = expiry(&api, &id).await;
    assert_eq!(first, "2030-03-17T17:48:40.000Z", "120 s after its creation");
    hand.advance(Duration::from_secs(29));
    assert_eq!(expiry(&api, &id).await, first, "within the interval");
    assert_eq!(api.log.touches.load(Ordering::SeqCst), 0);
    hand.advance(Duration::from_secs(1));
    assert_eq!(expiry(&api, &id).await, "2030-03-17T17:49:10.000Z");
    assert_eq!(expiry(&api, &id).await, "2030-03-17T17:49:10.000Z");
    assert_eq!(api.log.touches.load(Ordering::SeqCst), 1);
    // Another API server with a clock that is ahead has recorded access.
    let ahead = UnixMs(1_900_000_090_000);
    tenure_session::SessionLog::touch(&*api.log, &tenure_session::SessionId::new(&id).unwrap(), ahead)
        .await
        .unwrap();
    assert_eq!(expiry(&api, &id).await, "2030-03-17T17:50:10.000Z");
}

#[tokio::test]
async fn a_heartbeat_after_the_expiry_does_not_revive_the_session() {
    let (api, hand) = api().await;
    let id = api.start_channel().await;
    hand.advance(Duration::from_millis(119_999));
    expiry(&api, &id).await;
    hand.advance(Duration::from_secs(120));
    let before = api.writes();
    let expired = api.heartbeat(&id).await;
    assert_eq!((expired.code(), &expired.body["session"]), ((410, "SESSION.EXPIRED"), &Value::from(id)));
    assert_eq!(api.writes(), before);
}

#[tokio::test]
async fn the_expiry_is_counted_from_the_first_published_segment() {
    let (api, hand) = api().await;
    let id = api.start_channel().await;
    hand.advance(Duration::from_secs(200));
    let session = api.log.session(&id);
    api.log.put(tenure_session::Session { published: Some(UnixMs(1_900_000_150_000)), ..session });
    assert_eq!(
        expiry(&api, &id).await,
        "2030-03-17T17:52:00.000Z",
        "a heartbeat within 120 s of its first segment"
    );
}

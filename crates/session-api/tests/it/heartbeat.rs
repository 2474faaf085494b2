//! Somebody watches, or says so.

use std::sync::atomic::Ordering;
use std::time::Duration;

use reqwest::StatusCode;
use serde_json::Value;
use service::{Clock, Hand};
use session::UnixMs;

use crate::house::{House, Plan};

async fn house() -> (House, Hand) {
    let (clock, hand) = Clock::manual();
    (Plan::new().with(|options| options.clock = clock).build().await, hand)
}

async fn expiry(house: &House, id: &str) -> Value {
    let beat = house.beat(id).await;
    assert_eq!((beat.status, &beat.body["acknowledged"]), (StatusCode::OK, &Value::Bool(true)), "{beat:?}");
    assert_eq!(
        (&beat.body["sessionId"], &beat.headers["cache-control"]),
        (&Value::from(id), &"no-store".parse().unwrap())
    );
    let shown = house.get(&format!("/sessions/{id}")).await;
    assert_eq!(shown.body["leaseExpiresAt"], beat.body["leaseExpiresAt"], "the view says the same");
    beat.body["leaseExpiresAt"].clone()
}

#[tokio::test]
async fn a_heartbeat_extends_once_per_interval_and_never_shortens() {
    let (house, hand) = house().await;
    let id = house.start_channel().await;
    assert_eq!(house.log.session(&id).created, UnixMs(1_900_000_000_000));
    let first = expiry(&house, &id).await;
    assert_eq!(first, "2030-03-17T17:48:40.000Z", "120 s after it was wished");
    hand.advance(Duration::from_secs(29));
    assert_eq!(expiry(&house, &id).await, first, "within the interval");
    assert_eq!(house.log.touches.load(Ordering::SeqCst), 0);
    hand.advance(Duration::from_secs(1));
    assert_eq!(expiry(&house, &id).await, "2030-03-17T17:49:10.000Z");
    assert_eq!(expiry(&house, &id).await, "2030-03-17T17:49:10.000Z");
    assert_eq!(house.log.touches.load(Ordering::SeqCst), 1);
    // Another door whose clock is ahead has seen somebody.
    let ahead = UnixMs(1_900_000_090_000);
    session::SessionLog::touch(&*house.log, &session::SessionId::new(&id).unwrap(), ahead).await.unwrap();
    assert_eq!(expiry(&house, &id).await, "2030-03-17T17:50:10.000Z");
}

#[tokio::test]
async fn a_heartbeat_after_its_time_does_not_revive() {
    let (house, hand) = house().await;
    let id = house.start_channel().await;
    hand.advance(Duration::from_millis(119_999));
    expiry(&house, &id).await;
    hand.advance(Duration::from_secs(120));
    let before = house.writes();
    let expired = house.beat(&id).await;
    assert_eq!((expired.code(), &expired.body["session"]), ((410, "SESSION.EXPIRED"), &Value::from(id)));
    assert_eq!(house.writes(), before);
}

#[tokio::test]
async fn a_session_that_became_ready_late_has_its_whole_time() {
    let (house, hand) = house().await;
    let id = house.start_channel().await;
    hand.advance(Duration::from_secs(200));
    let session = house.log.session(&id);
    house.log.put(session::Session { published: Some(UnixMs(1_900_000_150_000)), ..session });
    assert_eq!(
        expiry(&house, &id).await,
        "2030-03-17T17:52:00.000Z",
        "seen now, within 120 s of its first picture"
    );
}

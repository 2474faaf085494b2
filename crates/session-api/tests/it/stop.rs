//! The end of a session, wished once and again.

use reqwest::StatusCode;
use serde_json::{Value, json};
use session::{Event, Topic};

use crate::house::{Answer, House};

async fn stop(house: &House, id: &str) -> Answer {
    house.intend(json!({"type": "stream.stop", "sessionId": id})).await
}

fn said(answer: &Answer) -> (StatusCode, &Value) {
    (answer.status, &answer.body["status"])
}

#[tokio::test]
async fn a_stop_is_asked_for_beside_the_record_and_a_second_one_is_a_replay() {
    let house = House::new().await;
    let id = house.start_channel().await;
    let record = house.log.session(&id);
    let first = stop(&house, &id).await;
    assert_eq!(said(&first), (StatusCode::ACCEPTED, &json!("accepted")));
    assert_eq!(first.body["sessionId"], id);
    assert_eq!(first.body["correlationId"], record.correlation.as_str());
    assert_eq!(house.bus.count(Topic::Stop), 1);
    assert_eq!(said(&stop(&house, &id).await), (StatusCode::ACCEPTED, &json!("idempotent_replay")));
    assert_eq!(house.log.session(&id), record, "the door does not write the record");
    let metrics = house.metrics().await;
    for line in [
        "xg2g_v3_intents_total{type=\"stream.stop\",mode=\"any\",outcome=\"accepted\"} 1",
        "xg2g_v3_intents_total{type=\"stream.stop\",mode=\"any\",outcome=\"replay\"} 1",
        "xg2g_v3_idempotent_replay_total{type=\"stream.stop\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn a_stop_of_what_is_over_is_a_replay_that_writes_nothing() {
    let house = House::new().await;
    let id = house.start_channel().await;
    house.log.live_through(&id, &[Event::Fail]);
    let before = house.writes();
    assert_eq!(said(&stop(&house, &id).await), (StatusCode::ACCEPTED, &json!("idempotent_replay")));
    assert_eq!((house.writes(), house.bus.count(Topic::Stop)), (before, 0));
}

#[tokio::test]
async fn a_stop_of_nothing_is_a_404_that_writes_nothing() {
    let house = House::new().await;
    assert_eq!(stop(&house, "no-such-session").await.code(), (404, "SESSION.NOT_FOUND"));
    assert_eq!((house.writes(), house.bus.count(Topic::Stop)), (0, 0));
}

#[tokio::test]
async fn a_stop_keeps_the_name_that_its_client_gives_it() {
    let house = House::new().await;
    let id = house.start_channel().await;
    let named = json!({"type": "stream.stop", "sessionId": id, "correlationId": "enough"});
    assert_eq!(house.intend(named).await.body["correlationId"], "enough");
}

#[tokio::test]
async fn a_stop_that_cannot_be_published_stands_and_is_told_again() {
    let house = House::new().await;
    let id = house.start_channel().await;
    house.bus.set_failing(true);
    assert_eq!(stop(&house, &id).await.code(), (503, "SERVICE_UNAVAILABLE"));
    house.bus.set_failing(false);
    assert_eq!(said(&stop(&house, &id).await), (StatusCode::ACCEPTED, &json!("idempotent_replay")));
    assert_eq!(house.bus.count(Topic::Stop), 1, "the worker hears of it");
}

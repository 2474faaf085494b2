//! Stops.

use reqwest::StatusCode;
use serde_json::{Value, json};
use tenure_session::SessionEvent;

use crate::api::{ApiResponse, TestApi};

async fn stop(api: &TestApi, id: &str) -> ApiResponse {
    api.submit(json!({"type": "stream.stop", "sessionId": id})).await
}

fn result(response: &ApiResponse) -> (StatusCode, &Value) {
    (response.status, &response.body["status"])
}

#[tokio::test]
async fn a_stop_does_not_modify_the_record_and_a_second_stop_is_a_replay() {
    let api = TestApi::new().await;
    let id = api.start_channel().await;
    let record = api.log.session(&id);
    let first = stop(&api, &id).await;
    assert_eq!(result(&first), (StatusCode::ACCEPTED, &json!("accepted")));
    assert_eq!(first.body["sessionId"], id);
    assert_eq!(first.body["correlationId"], record.correlation.as_str());
    assert_eq!(api.log.stops(), 1);
    assert_eq!(result(&stop(&api, &id).await), (StatusCode::ACCEPTED, &json!("idempotent_replay")));
    assert_eq!(api.log.session(&id), record, "the API does not modify the record");
    let metrics = api.metrics().await;
    for line in [
        "xg2g_v3_intents_total{type=\"stream.stop\",mode=\"any\",outcome=\"accepted\"} 1",
        "xg2g_v3_intents_total{type=\"stream.stop\",mode=\"any\",outcome=\"replay\"} 1",
        "xg2g_v3_idempotent_replay_total{type=\"stream.stop\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn a_stop_of_an_ended_session_is_a_replay_without_a_write() {
    let api = TestApi::new().await;
    let id = api.start_channel().await;
    api.log.apply_events(&id, &[SessionEvent::Fail]);
    let before = api.writes();
    assert_eq!(result(&stop(&api, &id).await), (StatusCode::ACCEPTED, &json!("idempotent_replay")));
    assert_eq!((api.writes(), api.log.stops()), (before, 0));
}

#[tokio::test]
async fn a_stop_of_an_unknown_session_is_a_404_without_a_write() {
    let api = TestApi::new().await;
    assert_eq!(stop(&api, "no-such-session").await.code(), (404, "SESSION.NOT_FOUND"));
    assert_eq!((api.writes(), api.log.stops()), (0, 0));
}

#[tokio::test]
async fn a_stop_keeps_its_correlation_id() {
    let api = TestApi::new().await;
    let id = api.start_channel().await;
    let named = json!({"type": "stream.stop", "sessionId": id, "correlationId": "enough"});
    assert_eq!(api.submit(named).await.body["correlationId"], "enough");
}

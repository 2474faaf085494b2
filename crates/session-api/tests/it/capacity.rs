//! The limit of stored sessions.

use std::sync::atomic::Ordering;

use serde_json::json;
use tenure_testkit::wait::until_async;

use crate::api::{LIMIT, TestApi, TestApiBuilder};

fn builder() -> TestApiBuilder {
    TestApiBuilder::new().with(|options| options.max_records = 2)
}

async fn start(api: &TestApi, number: u32) -> crate::api::ApiResponse {
    api.submit(json!({"recordingId": format!("rec-{number}")})).await
}

#[tokio::test]
async fn a_start_over_the_record_limit_is_rejected_and_repeats_still_succeed() {
    let api = builder().build().await;
    let first = api.start(json!({"recordingId": "rec-1"})).await;
    let second = api.start(json!({"recordingId": "rec-2"})).await;
    let port_calls = api.writes();
    let refused = start(&api, 3).await;
    assert_eq!(refused.code(), (429, "ADMISSION_SESSIONS_FULL"));
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!((api.writes(), api.log.sessions().len(), api.log.mappings()), (port_calls, 2, 2));
    let line = "xg2g_v3_intents_total{type=\"stream.start\",mode=\"phase2\",outcome=\"sessions_full\"} 1";
    assert!(api.metrics().await.contains(line), "{line}");

    assert_eq!(start(&api, 1).await.body["sessionId"], first);
    let stop = api.submit(json!({"type": "stream.stop", "sessionId": second})).await;
    assert_eq!(stop.status, 202);
    api.log.delete(&first);
    until_async("a deleted record frees capacity", LIMIT, async || start(&api, 3).await.status == 202)
        .await
        .unwrap();
    assert_eq!(start(&api, 4).await.code(), (429, "ADMISSION_SESSIONS_FULL"));
}

#[tokio::test]
async fn existing_records_count_towards_the_limit() {
    let before = TestApi::new().await;
    for number in 0..2 {
        before.start(json!({"recordingId": format!("rec-{number}")})).await;
    }
    let api = builder().sharing_log(&before).build().await;
    assert_eq!(start(&api, 9).await.code(), (429, "ADMISSION_SESSIONS_FULL"));
}

#[tokio::test]
async fn in_phase_1_no_lease_is_acquired_over_the_record_limit() {
    let api = builder().phase1().build().await;
    for number in 0..2 {
        api.start(json!({"recordingId": format!("rec-{number}")})).await;
    }
    let leases = api.leases.as_ref().unwrap();
    let asked = leases.asked.load(Ordering::SeqCst);
    assert_eq!(start(&api, 9).await.code(), (429, "ADMISSION_SESSIONS_FULL"));
    assert_eq!(leases.asked.load(Ordering::SeqCst), asked);
}

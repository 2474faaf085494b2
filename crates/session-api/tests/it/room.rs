//! How many sessions are kept.

use std::sync::atomic::Ordering;

use serde_json::json;
use testkit::wait::until_async;

use crate::house::{House, LIMIT, Plan};

fn plan() -> Plan {
    Plan::new().with(|options| options.max_records = 2)
}

async fn start(house: &House, number: u32) -> crate::house::Answer {
    house.intend(json!({"recordingId": format!("rec-{number}")})).await
}

#[tokio::test]
async fn no_more_are_recorded_than_are_kept_and_what_stands_is_still_answered() {
    let house = plan().build().await;
    let first = house.start(json!({"recordingId": "rec-1"})).await;
    let second = house.start(json!({"recordingId": "rec-2"})).await;
    let traces = house.writes();
    let refused = start(&house, 3).await;
    assert_eq!(refused.code(), (429, "ADMISSION_SESSIONS_FULL"));
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!((house.writes(), house.log.sessions().len(), house.log.mappings()), (traces, 2, 2));
    let line = "xg2g_v3_intents_total{type=\"stream.start\",mode=\"phase2\",outcome=\"sessions_full\"} 1";
    assert!(house.metrics().await.contains(line), "{line}");

    assert_eq!(start(&house, 1).await.body["sessionId"], first);
    let stop = house.intend(json!({"type": "stream.stop", "sessionId": second})).await;
    assert_eq!(stop.status, 202);
    house.log.forget(&first);
    until_async("what is forgotten makes room", LIMIT, async || start(&house, 3).await.status == 202)
        .await
        .unwrap();
    assert_eq!(start(&house, 4).await.code(), (429, "ADMISSION_SESSIONS_FULL"));
}

#[tokio::test]
async fn what_was_there_before_counts() {
    let before = House::new().await;
    for number in 0..2 {
        before.start(json!({"recordingId": format!("rec-{number}")})).await;
    }
    let house = plan().beside(&before).build().await;
    assert_eq!(start(&house, 9).await.code(), (429, "ADMISSION_SESSIONS_FULL"));
}

#[tokio::test]
async fn in_phase_1_no_channel_is_asked_for_when_there_is_no_place() {
    let house = plan().phase1().build().await;
    for number in 0..2 {
        house.start(json!({"recordingId": format!("rec-{number}")})).await;
    }
    let leases = house.leases.as_ref().unwrap();
    let asked = leases.asked.load(Ordering::SeqCst);
    assert_eq!(start(&house, 9).await.code(), (429, "ADMISSION_SESSIONS_FULL"));
    assert_eq!(leases.asked.load(Ordering::SeqCst), asked);
}

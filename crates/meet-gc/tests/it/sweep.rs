//! Sweeps of inactive meetings.

use std::time::Duration;

use serde_json::json;
use tenure_meet_gc::Rules;

use crate::test_gc::{HOST, OTHER, TestGc};

fn rules(inactive_after: Duration, kept_for: Duration) -> Rules {
    Rules { inactive_after, kept_for, ..Rules::default() }
}

#[tokio::test]
async fn an_inactive_meeting_is_closed_until_its_host_returns() {
    let mut test_gc = TestGc::with(rules(Duration::ZERO, Duration::from_secs(3_600))).await;
    test_gc.handlers().await;
    let mc = test_gc.mc("mc-1").await;
    let server = test_gc.first();
    let made = server.create().await;
    let code = made.text("meeting_code");
    let guest = server.guest(code, "Ada", None).await;
    server.gc.sweep().await.unwrap();
    assert_eq!(server.join(OTHER, code).await.code(), (409, "CONFLICT"));
    assert_eq!(server.guest(code, "Ada", None).await.code(), (409, "CONFLICT"));
    assert_eq!(server.join(guest.text("token"), code).await.code(), (409, "CONFLICT"));
    assert_eq!(mc.asked(), 0);
    assert_eq!(server.join(HOST, code).await.status, 200);
    assert_eq!(server.join(OTHER, code).await.status, 200);
    // The meeting has an owner, so it stays open however long ago the last join was.
    server.gc.sweep().await.unwrap();
    assert_eq!(server.join(OTHER, code).await.status, 200);
}

#[tokio::test]
async fn a_closed_meeting_is_deleted_after_retention() {
    let test_gc = TestGc::with(rules(Duration::ZERO, Duration::ZERO)).await;
    let server = test_gc.first();
    let made = server.create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    server.gc.sweep().await.unwrap();
    assert_eq!(server.change(HOST, id, json!({})).await.status, 200, "closed but not deleted");
    server.gc.sweep().await.unwrap();
    assert_eq!(server.join(HOST, code).await.code(), (404, "NOT_FOUND"));
    tenure_testkit::wait::until_async("the record is gone", crate::test_gc::LIMIT, async || {
        server.change(HOST, id, json!({})).await.status == 404
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_new_meeting_is_not_swept() {
    let test_gc = TestGc::new().await;
    let server = test_gc.first();
    let made = server.create().await;
    server.gc.sweep().await.unwrap();
    assert_eq!(server.guest(made.text("meeting_code"), "Ada", None).await.status, 200);
}

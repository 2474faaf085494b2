//! Meetings in which nothing happens.

use std::time::Duration;

use meet_gc::Rules;
use serde_json::json;

use crate::house::{HOST, House, OTHER};

fn rules(inactive_after: Duration, kept_for: Duration) -> Rules {
    Rules { inactive_after, kept_for, ..Rules::default() }
}

#[tokio::test]
async fn a_quiet_meeting_is_closed_until_its_host_comes_back() {
    let mut house = House::with(rules(Duration::ZERO, Duration::from_secs(3_600))).await;
    house.handlers().await;
    let mc = house.mc("mc-1").await;
    let door = house.first();
    let made = door.create().await;
    let code = made.text("meeting_code");
    let guest = door.guest(code, "Ada", None).await;
    door.gc.sweep().await.unwrap();
    assert_eq!(door.join(OTHER, code).await.code(), (409, "CONFLICT"));
    assert_eq!(door.guest(code, "Ada", None).await.code(), (409, "CONFLICT"));
    assert_eq!(door.join(guest.text("token"), code).await.code(), (409, "CONFLICT"));
    assert_eq!(mc.asked(), 0);
    assert_eq!(door.join(HOST, code).await.status, 200);
    assert_eq!(door.join(OTHER, code).await.status, 200);
    // Somebody has it: nothing is closed, however long ago the last join was.
    door.gc.sweep().await.unwrap();
    assert_eq!(door.join(OTHER, code).await.status, 200);
}

#[tokio::test]
async fn a_closed_meeting_is_forgotten_in_the_end() {
    let house = House::with(rules(Duration::ZERO, Duration::ZERO)).await;
    let door = house.first();
    let made = door.create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    door.gc.sweep().await.unwrap();
    assert_eq!(door.change(HOST, id, json!({})).await.status, 200, "closed, and still there");
    door.gc.sweep().await.unwrap();
    assert_eq!(door.join(HOST, code).await.code(), (404, "NOT_FOUND"));
    testkit::wait::until_async("the record is gone", crate::house::LIMIT, async || {
        door.change(HOST, id, json!({})).await.status == 404
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_meeting_that_was_just_made_stays() {
    let house = House::new().await;
    let door = house.first();
    let made = door.create().await;
    door.gc.sweep().await.unwrap();
    assert_eq!(door.guest(made.text("meeting_code"), "Ada", None).await.status, 200);
}

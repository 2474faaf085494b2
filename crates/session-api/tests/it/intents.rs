//! A start, once and again, in phase 2.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use reqwest::{Method, StatusCode};
use serde_json::json;
use session::{Event, State, Topic};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::house::{CHANNEL, House, Plan, WRITE, answer, secrets, soon};

#[tokio::test]
async fn a_start_is_recorded_with_its_mapping_published_and_answered() {
    let house = House::new().await;
    let request = house.request(WRITE, Method::POST, "/intents").header("x-request-id", "r-1").json(&json!({
        "type": "stream.start", "serviceRef": CHANNEL, "profileID": "high", "correlationId": "c-1",
    }));
    let taken = answer(request).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED);
    let id = taken.body["sessionId"].as_str().unwrap();
    assert_eq!(
        taken.body,
        json!({"sessionId": id, "requestId": "r-1", "status": "accepted", "correlationId": "c-1"})
    );
    assert_eq!(taken.headers["location"], format!("/api/v3/sessions/{id}"));
    let session = house.log.session(id);
    assert_eq!((session.state, session.profile.as_str(), session.target.id()), (State::New, "high", CHANNEL));
    assert_eq!((house.writes(), house.log.mappings(), house.bus.count(Topic::Start)), (1, 1, 1));
    let metrics = house.metrics().await;
    for line in [
        "xg2g_v3_intents_total{type=\"stream.start\",mode=\"phase2\",outcome=\"accepted\"} 1",
        "xg2g_v3_bus_publish_total{topic=\"session.start\",outcome=\"ok\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn the_same_start_again_is_the_same_session_with_its_first_correlation_id() {
    let house = House::new().await;
    let first = house.intend(json!({"serviceRef": CHANNEL, "correlationId": "first"})).await;
    let again =
        house.intend(json!({"serviceRef": CHANNEL, "profile": "AUTO", "correlationId": "second"})).await;
    assert_eq!(again.status, StatusCode::ACCEPTED);
    assert_eq!(again.body["sessionId"], first.body["sessionId"]);
    assert_eq!(
        (&again.body["status"], &again.body["correlationId"]),
        (&json!("idempotent_replay"), &json!("first"))
    );
    assert_ne!(again.body["requestId"], first.body["requestId"]);
    assert_eq!((house.writes(), house.bus.count(Topic::Start)), (1, 1));
    let id = first.body["sessionId"].as_str().unwrap();
    for event in [Event::Pick, Event::Prime, Event::Publish, Event::Drain, Event::AskStop] {
        house.log.live_through(id, &[event]);
        assert_eq!(house.intend(json!({"serviceRef": CHANNEL})).await.body["sessionId"], id, "after {event}");
    }
    let metrics = house.metrics().await;
    assert!(metrics.contains("xg2g_v3_idempotent_replay_total{type=\"stream.start\"} 6"), "{metrics}");
}

#[tokio::test]
async fn a_request_without_a_correlation_id_gets_one() {
    let house = House::new().await;
    let taken = house.intend(json!({"serviceRef": CHANNEL})).await;
    assert_eq!(taken.body["correlationId"].as_str().unwrap().len(), 36);
    let id = taken.body["sessionId"].as_str().unwrap();
    assert_eq!(house.log.session(id).correlation.as_str(), taken.body["correlationId"]);
}

#[tokio::test]
async fn fifty_parallel_starts_are_one_session_and_one_start_event() {
    const CLIENTS: usize = 50;
    let house = Arc::new(House::new().await);
    // All of them look before any of them writes.
    *house.log.crowd.lock() = Some(Arc::new(Barrier::new(CLIENTS)));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let house = house.clone();
        clients.spawn(async move { house.intend(json!({"serviceRef": CHANNEL})).await });
    }
    let answers = soon(clients.join_all()).await;
    assert!(answers.iter().all(|answer| answer.status == StatusCode::ACCEPTED), "{answers:?}");
    let accepted: Vec<_> = answers.iter().filter(|answer| answer.body["status"] == "accepted").collect();
    assert_eq!(accepted.len(), 1);
    let id = &accepted[0].body["sessionId"];
    assert!(answers.iter().all(|answer| answer.body["sessionId"] == *id));
    assert_eq!((house.log.sessions().len(), house.log.mappings(), house.bus.count(Topic::Start)), (1, 1, 1));
    assert_eq!(house.log.creates.load(Ordering::SeqCst), CLIENTS, "everybody tried to write");
}

#[tokio::test]
async fn another_profile_or_another_channel_is_another_session() {
    let house = House::new().await;
    let high = house.start(json!({"serviceRef": CHANNEL, "profileID": "high"})).await;
    let low = house.start(json!({"serviceRef": CHANNEL, "profileID": "low"})).await;
    let other = house.start(json!({"serviceRef": "1:0:1:1:1:1:1:0:0:0:"})).await;
    assert!(high != low && high != other && low != other);
    assert_eq!(house.bus.count(Topic::Start), 3);
    assert_eq!(house.log.session(&high).state, State::New);
}

#[tokio::test]
async fn starts_of_a_recording_share_a_session_within_one_second_only() {
    let house = House::new().await;
    let ten = house.start(json!({"recordingId": "rec-1", "startMs": 10_000})).await;
    for start in [10_500, 10_999] {
        let again = house.intend(json!({"recordingId": "rec-1", "startMs": start})).await;
        assert_eq!(again.body["sessionId"], ten, "{start}");
    }
    assert_ne!(house.start(json!({"recordingId": "rec-1", "startMs": 11_000})).await, ten);
    assert_ne!(house.start(json!({"recordingId": "rec-2", "startMs": 10_000})).await, ten);
}

#[tokio::test]
async fn a_session_that_is_over_or_gone_is_never_given_again() {
    let house = House::new().await;
    let ends: [&[Event]; 3] = [&[Event::Fail], &[Event::AskStop, Event::End], &[Event::Pick, Event::Cancel]];
    let mut seen = vec![house.start_channel().await];
    for end in ends {
        house.log.live_through(seen.last().unwrap(), end);
        let next = house.start_channel().await;
        assert!(!seen.contains(&next), "{end:?}");
        seen.push(next);
    }
    house.log.forget(seen.last().unwrap());
    let next = house.start_channel().await;
    assert!(!seen.contains(&next));
    assert_eq!(house.log.mappings(), 1, "the mapping was replaced, not added to");
    assert_eq!(house.intend(json!({"serviceRef": CHANNEL})).await.body["sessionId"], next);
}

#[tokio::test]
async fn while_a_secret_is_replaced_what_was_started_before_is_found() {
    let before = House::new().await;
    let id = before.start_channel().await;
    let rotated = || Plan::new().with(|options| options.secrets = secrets("new", Some(crate::house::SECRET)));
    let during = rotated().beside(&before).build().await;
    let again = during.intend(json!({"serviceRef": CHANNEL})).await;
    assert_eq!((&again.body["sessionId"], &again.body["status"]), (&json!(id), &json!("idempotent_replay")));
    // A new session gets a key of the current secret, which the next rotation finds as its previous one.
    during.log.live_through(&id, &[Event::Fail]);
    let next = during.start_channel().await;
    assert_ne!(next, id);
    assert_eq!(during.intend(json!({"serviceRef": CHANNEL})).await.body["sessionId"], next);
    let plan = Plan::new().with(|options| options.secrets = secrets("newer", Some("new")));
    let after = plan.beside(&during).build().await;
    assert_eq!(after.intend(json!({"serviceRef": CHANNEL})).await.body["sessionId"], next);
    let plan = Plan::new().with(|options| options.secrets = secrets("newest", None));
    let stranger = plan.beside(&during).build().await;
    assert_ne!(stranger.start_channel().await, next, "without the secret the wish is another one");
}

#[tokio::test]
async fn without_a_tuner_live_is_refused_and_recordings_are_not() {
    let house = Plan::new().with(|options| options.slots = 0).build().await;
    let refused = house.intend(json!({"serviceRef": CHANNEL})).await;
    assert_eq!(refused.code(), (503, "ADMISSION_NO_TUNERS"));
    assert_eq!(house.traces(), [0; 5]);
    let metrics = house.metrics().await;
    assert!(metrics.contains("mode=\"phase2\",outcome=\"no_slots\"} 1"), "{metrics}");
    house.start(json!({"recordingId": "rec-1"})).await;
}

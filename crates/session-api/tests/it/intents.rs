//! Starts in phase 2.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use reqwest::{Method, StatusCode};
use serde_json::json;
use tenure_session::{SessionEvent, SessionState};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::api::{CHANNEL, TestApi, TestApiBuilder, WRITE, secrets, send, within_limit};

#[tokio::test]
async fn a_start_commits_record_and_mapping_and_returns_202() {
    let api = TestApi::new().await;
    let request = api.request(WRITE, Method::POST, "/intents").header("x-request-id", "r-1").json(&json!({
        "type": "stream.start", "serviceRef": CHANNEL, "profileID": "high", "correlationId": "c-1",
    }));
    let taken = send(request).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED);
    let id = taken.body["sessionId"].as_str().unwrap();
    assert_eq!(
        taken.body,
        json!({"sessionId": id, "requestId": "r-1", "status": "accepted", "correlationId": "c-1"})
    );
    assert_eq!(taken.headers["location"], format!("/api/v3/sessions/{id}"));
    let session = api.log.session(id);
    assert_eq!(
        (session.state, session.profile.as_str(), session.target.id()),
        (SessionState::New, "high", CHANNEL)
    );
    assert_eq!((api.writes(), api.log.mappings(), api.log.created()), (1, 1, 1));
    let metrics = api.metrics().await;
    for line in [
        "xg2g_v3_intents_total{type=\"stream.start\",mode=\"phase2\",outcome=\"accepted\"} 1",
        "xg2g_v3_bus_publish_total{topic=\"session.start\",outcome=\"ok\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn a_repeated_start_returns_the_same_session_and_its_first_correlation_id() {
    let api = TestApi::new().await;
    let first = api.submit(json!({"serviceRef": CHANNEL, "correlationId": "first"})).await;
    let again =
        api.submit(json!({"serviceRef": CHANNEL, "profile": "AUTO", "correlationId": "second"})).await;
    assert_eq!(again.status, StatusCode::ACCEPTED);
    assert_eq!(again.body["sessionId"], first.body["sessionId"]);
    assert_eq!(
        (&again.body["status"], &again.body["correlationId"]),
        (&json!("idempotent_replay"), &json!("first"))
    );
    assert_ne!(again.body["requestId"], first.body["requestId"]);
    assert_eq!((api.writes(), api.log.created()), (1, 1));
    let id = first.body["sessionId"].as_str().unwrap();
    for event in [
        SessionEvent::Pick,
        SessionEvent::Prime,
        SessionEvent::Publish,
        SessionEvent::Drain,
        SessionEvent::RequestStop,
    ] {
        api.log.apply_events(id, &[event]);
        assert_eq!(api.submit(json!({"serviceRef": CHANNEL})).await.body["sessionId"], id, "after {event}");
    }
    let metrics = api.metrics().await;
    assert!(metrics.contains("xg2g_v3_idempotent_replay_total{type=\"stream.start\"} 6"), "{metrics}");
}

#[tokio::test]
async fn a_request_without_a_correlation_id_gets_one() {
    let api = TestApi::new().await;
    let taken = api.submit(json!({"serviceRef": CHANNEL})).await;
    assert_eq!(taken.body["correlationId"].as_str().unwrap().len(), 36);
    let id = taken.body["sessionId"].as_str().unwrap();
    assert_eq!(api.log.session(id).correlation.as_str(), taken.body["correlationId"]);
}

#[tokio::test]
async fn fifty_parallel_starts_are_one_session_and_one_start_event() {
    const CLIENTS: usize = 50;
    let api = Arc::new(TestApi::new().await);
    // All clients read before any of them writes.
    *api.log.read_barrier.lock() = Some(Arc::new(Barrier::new(CLIENTS)));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let api = api.clone();
        clients.spawn(async move { api.submit(json!({"serviceRef": CHANNEL})).await });
    }
    let answers = within_limit(clients.join_all()).await;
    assert!(answers.iter().all(|response| response.status == StatusCode::ACCEPTED), "{answers:?}");
    let accepted: Vec<_> = answers.iter().filter(|response| response.body["status"] == "accepted").collect();
    assert_eq!(accepted.len(), 1);
    let id = &accepted[0].body["sessionId"];
    assert!(answers.iter().all(|response| response.body["sessionId"] == *id));
    assert_eq!((api.log.sessions().len(), api.log.mappings(), api.log.created()), (1, 1, 1));
    assert_eq!(api.log.creates.load(Ordering::SeqCst), CLIENTS, "every client tried to write");
}

#[tokio::test]
async fn another_profile_or_another_channel_is_another_session() {
    let api = TestApi::new().await;
    let high = api.start(json!({"serviceRef": CHANNEL, "profileID": "high"})).await;
    let low = api.start(json!({"serviceRef": CHANNEL, "profileID": "low"})).await;
    let other = api.start(json!({"serviceRef": "1:0:1:1:1:1:1:0:0:0:"})).await;
    assert!(high != low && high != other && low != other);
    assert_eq!(api.log.created(), 3);
    assert_eq!(api.log.session(&high).state, SessionState::New);
}

#[tokio::test]
async fn starts_of_a_recording_share_a_session_within_one_second_only() {
    let api = TestApi::new().await;
    let ten = api.start(json!({"recordingId": "rec-1", "startMs": 10_000})).await;
    for start in [10_500, 10_999] {
        let again = api.submit(json!({"recordingId": "rec-1", "startMs": start})).await;
        assert_eq!(again.body["sessionId"], ten, "{start}");
    }
    assert_ne!(api.start(json!({"recordingId": "rec-1", "startMs": 11_000})).await, ten);
    assert_ne!(api.start(json!({"recordingId": "rec-2", "startMs": 10_000})).await, ten);
}

#[tokio::test]
async fn an_ended_or_deleted_session_is_never_replayed() {
    let api = TestApi::new().await;
    let ends: [&[SessionEvent]; 3] = [
        &[SessionEvent::Fail],
        &[SessionEvent::RequestStop, SessionEvent::End],
        &[SessionEvent::Pick, SessionEvent::Cancel],
    ];
    let mut seen = vec![api.start_channel().await];
    for end in ends {
        api.log.apply_events(seen.last().unwrap(), end);
        let next = api.start_channel().await;
        assert!(!seen.contains(&next), "{end:?}");
        seen.push(next);
    }
    api.log.delete(seen.last().unwrap());
    let next = api.start_channel().await;
    assert!(!seen.contains(&next));
    assert_eq!(api.log.mappings(), 1, "the mapping was replaced, not added to");
    assert_eq!(api.submit(json!({"serviceRef": CHANNEL})).await.body["sessionId"], next);
}

#[tokio::test]
async fn during_a_secret_rotation_earlier_sessions_are_found() {
    let before = TestApi::new().await;
    let id = before.start_channel().await;
    let rotated =
        || TestApiBuilder::new().with(|options| options.secrets = secrets("new", Some(crate::api::SECRET)));
    let during = rotated().sharing_log(&before).build().await;
    let again = during.submit(json!({"serviceRef": CHANNEL})).await;
    assert_eq!((&again.body["sessionId"], &again.body["status"]), (&json!(id), &json!("idempotent_replay")));
    // A new session is mapped with the current secret, which is the previous one of the next rotation.
    during.log.apply_events(&id, &[SessionEvent::Fail]);
    let next = during.start_channel().await;
    assert_ne!(next, id);
    assert_eq!(during.submit(json!({"serviceRef": CHANNEL})).await.body["sessionId"], next);
    let builder = TestApiBuilder::new().with(|options| options.secrets = secrets("newer", Some("new")));
    let after = builder.sharing_log(&during).build().await;
    assert_eq!(after.submit(json!({"serviceRef": CHANNEL})).await.body["sessionId"], next);
    let builder = TestApiBuilder::new().with(|options| options.secrets = secrets("newest", None));
    let other = builder.sharing_log(&during).build().await;
    assert_ne!(other.start_channel().await, next, "without the secret the session is not found");
}

#[tokio::test]
async fn without_tuners_live_channels_are_rejected_and_recordings_accepted() {
    let api = TestApiBuilder::new().with(|options| options.slots = 0).build().await;
    let refused = api.submit(json!({"serviceRef": CHANNEL})).await;
    assert_eq!(refused.code(), (503, "ADMISSION_NO_TUNERS"));
    assert_eq!(api.port_calls(), [0; 4]);
    let metrics = api.metrics().await;
    assert!(metrics.contains("mode=\"phase2\",outcome=\"no_slots\"} 1"), "{metrics}");
    api.start(json!({"recordingId": "rec-1"})).await;
}

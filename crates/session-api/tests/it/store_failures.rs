//! Failures of the session store.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::extract::ConnectInfo;
use reqwest::StatusCode;
use serde_json::json;
use tenure_service::{Caller, Scopes};
use tokio::sync::Notify;
use tower::ServiceExt;

use crate::api::{CHANNEL, TestApi, TestApiBuilder, ports, within_limit};
use crate::ports::Fault;

#[tokio::test]
async fn an_unavailable_store_is_a_503_without_internal_details() {
    let api = TestApi::new().await;
    let id = api.start_channel().await;
    api.log.set_unavailable(true);
    // `send` checks that no body contains the store's error text.
    assert_eq!(api.submit(json!({"serviceRef": CHANNEL})).await.code(), (503, "V3_UNAVAILABLE"));
    let stop = json!({"type": "stream.stop", "sessionId": id});
    assert_eq!(api.submit(stop).await.code(), (503, "V3_UNAVAILABLE"));
    for path in ["", "/events", "/hls/index.m3u8"] {
        assert_eq!(api.get(&format!("/sessions/{id}{path}")).await.code(), (503, "V3_UNAVAILABLE"), "{path}");
    }
    assert_eq!(api.heartbeat(&id).await.code(), (503, "V3_UNAVAILABLE"));
    let metrics = api.metrics().await;
    for kind in ["type=\"stream.start\",mode=\"phase2\"", "type=\"stream.stop\",mode=\"any\""] {
        let line = format!("xg2g_v3_intents_total{{{kind},outcome=\"store_error\"}} 1");
        assert!(metrics.contains(&line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn a_commit_whose_response_was_lost_is_found_as_one_session() {
    let api = TestApi::new().await;
    api.log.fail_next_creates(&[Fault::Landed]);
    let id = api.start_channel().await;
    assert_eq!(api.log.creates.load(Ordering::SeqCst), 1);
    assert_eq!((api.log.sessions().len(), api.log.created()), (1, 1));
    assert_eq!(api.submit(json!({"serviceRef": CHANNEL})).await.body["sessionId"], id);
}

#[tokio::test]
async fn a_lost_commit_is_retried_with_the_same_session_id() {
    let api = TestApi::new().await;
    api.log.fail_next_creates(&[Fault::Lost, Fault::Lost]);
    api.start_channel().await;
    assert_eq!(api.log.creates.load(Ordering::SeqCst), 3);
    assert_eq!((api.log.sessions().len(), api.log.created()), (1, 1));
}

#[tokio::test]
async fn a_start_that_loses_a_race_returns_the_winning_session() {
    let api = TestApi::new().await;
    api.log.fail_next_creates(&[Fault::OvertakenByRival]);
    let taken = api.submit(json!({"serviceRef": CHANNEL})).await;
    assert_eq!(
        (&taken.body["sessionId"], &taken.body["status"]),
        (&json!("rival"), &json!("idempotent_replay"))
    );
    assert_eq!(
        (api.log.sessions().len(), api.log.created()),
        (1, 1),
        "only the faster one created a session"
    );
}

#[tokio::test]
async fn attempts_to_record_a_start_are_bounded() {
    let api = TestApi::new().await;
    for (fault, code) in [(Fault::Taken, "V3_UNAVAILABLE"), (Fault::Lost, "SERVICE_UNAVAILABLE")] {
        let before = api.log.creates.load(Ordering::SeqCst);
        api.log.fail_all_creates(fault);
        assert_eq!(api.submit(json!({"serviceRef": CHANNEL})).await.code(), (503, code), "{fault:?}");
        assert_eq!(api.log.creates.load(Ordering::SeqCst) - before, tenure_session_api::limits::ATTEMPTS);
    }
    assert_eq!(api.log.created(), 0);
}

#[tokio::test]
async fn a_start_is_recorded_even_when_its_client_disconnects() {
    let builder = TestApiBuilder::new();
    let (log, gate) = (builder.log.clone(), Arc::new(Notify::new()));
    log.set_gate(gate.clone());
    let tasks = builder.options.tasks.clone();
    let router = tenure_session_api::routes(ports(&log, None), builder.options);
    let mut request = http::Request::post("/api/v3/intents")
        .header("content-type", "application/json")
        .body(Body::from(json!({"serviceRef": CHANNEL}).to_string()))
        .unwrap();
    request.extensions_mut().insert(Caller::bearer("a", Scopes::all_admin()));
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 1))));
    let writing = async {
        while log.creates.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = router.oneshot(request) => panic!("the write is still held back"),
        () = within_limit(writing) => {}
    }
    // The request is dropped here, while its write is in flight.
    assert_eq!(log.sessions().len(), 0);
    gate.notify_one();
    tasks.close();
    within_limit(tasks.wait()).await;
    assert_eq!((log.sessions().len(), log.created()), (1, 1));
}

#[tokio::test]
async fn every_response_has_a_request_id() {
    let api = TestApi::new().await;
    let taken = api.submit(json!({"serviceRef": CHANNEL})).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED);
    assert_eq!(taken.body["requestId"], taken.headers["x-request-id"].to_str().unwrap());
}

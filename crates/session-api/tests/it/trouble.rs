//! The world behind the door fails.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::extract::ConnectInfo;
use reqwest::StatusCode;
use serde_json::json;
use service::{Caller, Scopes};
use session::{State, Topic};
use tokio::sync::Notify;
use tower::ServiceExt;

use crate::house::{CHANNEL, House, Plan, ports, soon};
use crate::world::{Fault, Told};

#[tokio::test]
async fn a_start_that_cannot_be_published_leaves_nothing_behind() {
    let house = House::new().await;
    house.bus.set_failing(true);
    let refused = house.intend(json!({"serviceRef": CHANNEL})).await;
    assert_eq!(refused.code(), (503, "SERVICE_UNAVAILABLE"));
    assert_eq!((house.log.sessions().len(), house.log.mappings(), house.bus.count(Topic::Start)), (0, 0, 0));
    house.bus.set_failing(false);
    house.start_channel().await;
    let metrics = house.metrics().await;
    for line in [
        "mode=\"phase2\",outcome=\"publish_error\"} 1",
        "xg2g_v3_bus_publish_total{topic=\"session.start\",outcome=\"error\"} 1",
        "xg2g_v3_bus_publish_total{topic=\"session.start\",outcome=\"ok\"} 1",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn a_start_that_a_worker_found_by_itself_is_taken_though_it_was_not_published() {
    let house = House::new().await;
    house.bus.set_failing(true);
    house.bus.set_worker(house.log.clone());
    let id = house.start_channel().await;
    assert_eq!(house.log.session(&id).state, State::Starting);
}

#[tokio::test]
async fn a_store_out_of_reach_is_a_503_that_tells_nothing_of_it() {
    let house = House::new().await;
    let id = house.start_channel().await;
    house.log.set_down(true);
    // `answer` holds every body to showing nothing of the store's own words.
    assert_eq!(house.intend(json!({"serviceRef": CHANNEL})).await.code(), (503, "V3_UNAVAILABLE"));
    let stop = json!({"type": "stream.stop", "sessionId": id});
    assert_eq!(house.intend(stop).await.code(), (503, "V3_UNAVAILABLE"));
    for path in ["", "/events", "/hls/index.m3u8"] {
        assert_eq!(
            house.get(&format!("/sessions/{id}{path}")).await.code(),
            (503, "V3_UNAVAILABLE"),
            "{path}"
        );
    }
    assert_eq!(house.beat(&id).await.code(), (503, "V3_UNAVAILABLE"));
    let metrics = house.metrics().await;
    for kind in ["type=\"stream.start\",mode=\"phase2\"", "type=\"stream.stop\",mode=\"any\""] {
        let line = format!("xg2g_v3_intents_total{{{kind},outcome=\"store_error\"}} 1");
        assert!(metrics.contains(&line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn a_write_whose_answer_was_cut_is_found_again_as_one_session() {
    let house = House::new().await;
    house.log.creations_end(&[Fault::Landed]);
    let id = house.start_channel().await;
    assert_eq!(house.log.creates.load(Ordering::SeqCst), 1);
    assert_eq!((house.log.sessions().len(), house.bus.count(Topic::Start)), (1, 1));
    assert_eq!(house.intend(json!({"serviceRef": CHANNEL})).await.body["sessionId"], id);
}

#[tokio::test]
async fn a_write_that_was_lost_is_written_again_as_the_same_session() {
    let house = House::new().await;
    house.log.creations_end(&[Fault::Lost, Fault::Lost]);
    house.start_channel().await;
    assert_eq!(house.log.creates.load(Ordering::SeqCst), 3);
    assert_eq!((house.log.sessions().len(), house.bus.count(Topic::Start)), (1, 1));
}

#[tokio::test]
async fn whoever_is_overtaken_gets_the_session_of_the_faster_one() {
    let house = House::new().await;
    house.log.creations_end(&[Fault::Overtaken]);
    let taken = house.intend(json!({"serviceRef": CHANNEL})).await;
    assert_eq!(
        (&taken.body["sessionId"], &taken.body["status"]),
        (&json!("rival"), &json!("idempotent_replay"))
    );
    assert_eq!(
        (house.log.sessions().len(), house.bus.count(Topic::Start)),
        (1, 0),
        "the faster one publishes it"
    );
}

#[tokio::test]
async fn nobody_tries_for_ever() {
    let house = House::new().await;
    for (fault, code) in [(Fault::Taken, "V3_UNAVAILABLE"), (Fault::Lost, "SERVICE_UNAVAILABLE")] {
        let before = house.log.creates.load(Ordering::SeqCst);
        house.log.creations_always_end(fault);
        assert_eq!(house.intend(json!({"serviceRef": CHANNEL})).await.code(), (503, code), "{fault:?}");
        assert_eq!(house.log.creates.load(Ordering::SeqCst) - before, session_api::limits::ATTEMPTS);
    }
    assert_eq!(house.bus.count(Topic::Start), 0);
}

#[tokio::test]
async fn a_client_that_leaves_in_the_middle_leaves_a_whole_start() {
    let plan = Plan::new();
    let (log, bus, gate) = (plan.log.clone(), Arc::<Told>::default(), Arc::new(Notify::new()));
    bus.set_gate(gate.clone());
    let tasks = plan.options.tasks.clone();
    let router = session_api::routes(ports(&log, &bus, None), plan.options);
    let mut request = http::Request::post("/api/v3/intents")
        .header("content-type", "application/json")
        .body(Body::from(json!({"serviceRef": CHANNEL}).to_string()))
        .unwrap();
    request.extensions_mut().insert(Caller::bearer("a", Scopes::all_admin()));
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 1))));
    let recorded = async {
        while bus.asked.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = router.oneshot(request) => panic!("it waits for the bus"),
        () = soon(recorded) => {}
    }
    // The request is dropped here, between its record and its notice.
    assert_eq!((log.sessions().len(), bus.count(Topic::Start)), (1, 0));
    gate.notify_one();
    tasks.close();
    soon(tasks.wait()).await;
    assert_eq!(bus.count(Topic::Start), 1);
}

#[tokio::test]
async fn a_request_id_is_in_every_answer() {
    let house = House::new().await;
    let taken = house.intend(json!({"serviceRef": CHANNEL})).await;
    assert_eq!(taken.status, StatusCode::ACCEPTED);
    assert_eq!(taken.body["requestId"], taken.headers["x-request-id"].to_str().unwrap());
}

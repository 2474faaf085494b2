//! Phase 1 of the migration: the API acquires the lease before the lookup.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::api::{ADMIN, CHANNEL, READ, TestApi, TestApiBuilder, send};
use crate::events::Stream;
use crate::ports::{FakeAdmission, Fault, TICKET};

async fn api() -> (TestApi, Arc<FakeAdmission>) {
    let api = TestApiBuilder::new().phase1().build().await;
    let leases = api.leases.clone().unwrap();
    (api, leases)
}

#[tokio::test]
async fn of_two_concurrent_starts_one_is_accepted_and_one_conflicts() {
    let (api, leases) = api().await;
    let intent = || api.submit(json!({"serviceRef": CHANNEL, "profileID": "high"}));
    let (first, second) = tokio::join!(intent(), intent());
    let mut answers = [first, second];
    answers.sort_by_key(|response| response.status);
    let [taken, conflict] = &answers;
    assert_eq!((taken.status, &taken.body["status"]), (StatusCode::ACCEPTED, &json!("accepted")));
    assert_eq!(conflict.code(), (409, "LEASE_BUSY"));
    assert_eq!(conflict.headers["retry-after"], "1");
    assert_eq!((api.log.created(), api.log.sessions().len(), leases.held()), (1, 1, 1));
    let metrics = api.metrics().await;
    for outcome in ["accepted", "conflict"] {
        let line =
            format!("xg2g_v3_intents_total{{type=\"stream.start\",mode=\"phase1\",outcome=\"{outcome}\"}} 1");
        assert!(metrics.contains(&line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn a_repeated_start_conflicts_before_any_lookup() {
    let (api, leases) = api().await;
    api.start_channel().await;
    let before = api.port_calls();
    for profile in ["high", "low"] {
        let repeat = api.submit(json!({"serviceRef": CHANNEL, "profileID": profile})).await;
        assert_eq!(
            (repeat.code(), &repeat.headers["retry-after"]),
            ((409, "LEASE_BUSY"), &"1".parse().unwrap())
        );
    }
    let after = api.port_calls();
    assert_eq!(before[..3], after[..3], "the admission comes before the lookup");
    assert_eq!((after[3], leases.held()), (before[3] + 2, 1));
}

#[tokio::test]
async fn the_ticket_is_stored_in_the_record_and_never_output() {
    let (api, _) = api().await;
    let id = api.start_channel().await;
    let ticket = api.log.session(&id).ticket.unwrap();
    assert_eq!(ticket.reveal(), format!("{TICKET}-{id}"));
    // `send` checks that no body contains a ticket.
    api.get(&format!("/sessions/{id}")).await;
    send(api.request(ADMIN, Method::GET, "/sessions")).await;
    let request = api.request(READ, Method::GET, &format!("/sessions/{id}/events"));
    let event = Stream::open(request).await.next().await.unwrap();
    assert!(!event.data.to_string().contains(TICKET), "{event:?}");
    assert!(!format!("{:?}", api.log.session(&id)).contains(TICKET));
    assert!(!api.metrics().await.contains(TICKET));
}

#[tokio::test]
async fn a_failed_commit_releases_the_lease() {
    let (api, leases) = api().await;
    api.log.fail_next_creates(&[Fault::Refused]);
    assert_eq!(api.submit(json!({"serviceRef": CHANNEL})).await.code(), (503, "V3_UNAVAILABLE"));
    assert_eq!((leases.held(), leases.released.load(Ordering::SeqCst)), (0, 1));
    api.log.set_unavailable(true);
    assert_eq!(api.submit(json!({"serviceRef": CHANNEL})).await.code(), (503, "V3_UNAVAILABLE"));
    assert_eq!((leases.held(), leases.released.load(Ordering::SeqCst)), (0, 2));
    api.log.set_unavailable(false);
    api.start_channel().await;
    assert_eq!(leases.held(), 1);
}

#[tokio::test]
async fn an_existing_session_without_a_lease_conflicts_and_the_lease_is_released() {
    let phase2 = TestApi::new().await;
    phase2.start_channel().await;
    let api = TestApiBuilder::new().phase1().sharing_log(&phase2).build().await;
    let refused = api.submit(json!({"serviceRef": CHANNEL})).await;
    assert_eq!(
        (refused.code(), &refused.headers["retry-after"]),
        ((409, "LEASE_BUSY"), &"1".parse().unwrap())
    );
    assert_eq!((api.leases.as_ref().unwrap().held(), api.log.sessions().len()), (0, 1));
}

#[tokio::test]
async fn a_concurrently_recorded_intent_releases_the_lease() {
    let (api, leases) = api().await;
    api.log.fail_next_creates(&[Fault::OvertakenByRival]);
    assert_eq!(api.submit(json!({"serviceRef": CHANNEL})).await.code(), (409, "LEASE_BUSY"));
    assert_eq!((leases.held(), leases.released.load(Ordering::SeqCst)), (0, 1));
    api.log.delete("rival");
    api.log.fail_all_creates(Fault::Taken);
    assert_eq!(api.submit(json!({"serviceRef": CHANNEL})).await.code(), (503, "V3_UNAVAILABLE"));
    assert_eq!((leases.held(), api.log.sessions().len()), (0, 0));
}

#[tokio::test]
async fn an_indeterminate_commit_keeps_the_lease_for_the_worker() {
    let (api, leases) = api().await;
    api.log.fail_all_creates(Fault::Lost);
    assert_eq!(api.submit(json!({"serviceRef": CHANNEL})).await.code(), (503, "SERVICE_UNAVAILABLE"));
    assert_eq!((leases.held(), leases.released.load(Ordering::SeqCst)), (1, 0));
}

#[tokio::test]
async fn a_failed_admission_is_a_503_and_nothing_is_recorded() {
    let (api, leases) = api().await;
    leases.set_failing(true);
    assert_eq!(api.submit(json!({"serviceRef": CHANNEL})).await.code(), (503, "V3_UNAVAILABLE"));
    assert_eq!(api.port_calls()[..3], [0; 3]);
    let metrics = api.metrics().await;
    assert!(metrics.contains("mode=\"phase1\",outcome=\"lease_error\"} 1"), "{metrics}");
}

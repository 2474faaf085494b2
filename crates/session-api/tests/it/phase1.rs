//! Phase 1 of the migration: the door asks before it looks and records.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use reqwest::{Method, StatusCode};
use serde_json::json;
use session::Topic;

use crate::events::Stream;
use crate::house::{ADMIN, CHANNEL, House, Plan, READ, answer};
use crate::world::{Fault, Leases, TICKET};

async fn house() -> (House, Arc<Leases>) {
    let house = Plan::new().phase1().build().await;
    let leases = house.leases.clone().unwrap();
    (house, leases)
}

#[tokio::test]
async fn of_two_starts_at_once_one_is_taken_and_one_is_a_conflict() {
    let (house, leases) = house().await;
    let wish = || house.intend(json!({"serviceRef": CHANNEL, "profileID": "high"}));
    let (first, second) = tokio::join!(wish(), wish());
    let mut answers = [first, second];
    answers.sort_by_key(|answer| answer.status);
    let [taken, conflict] = &answers;
    assert_eq!((taken.status, &taken.body["status"]), (StatusCode::ACCEPTED, &json!("accepted")));
    assert_eq!(conflict.code(), (409, "LEASE_BUSY"));
    assert_eq!(conflict.headers["retry-after"], "1");
    assert_eq!((house.bus.count(Topic::Start), house.log.sessions().len(), leases.held()), (1, 1, 1));
    let metrics = house.metrics().await;
    for outcome in ["accepted", "conflict"] {
        let line =
            format!("xg2g_v3_intents_total{{type=\"stream.start\",mode=\"phase1\",outcome=\"{outcome}\"}} 1");
        assert!(metrics.contains(&line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn a_repeat_is_a_conflict_too_and_nothing_is_looked_up_for_it() {
    let (house, leases) = house().await;
    house.start_channel().await;
    let before = house.traces();
    for profile in ["high", "low"] {
        let repeat = house.intend(json!({"serviceRef": CHANNEL, "profileID": profile})).await;
        assert_eq!(
            (repeat.code(), &repeat.headers["retry-after"]),
            ((409, "LEASE_BUSY"), &"1".parse().unwrap())
        );
    }
    let after = house.traces();
    assert_eq!(before[..4], after[..4], "the admission comes before the lookup");
    assert_eq!((after[4], leases.held()), (before[4] + 2, 1));
}

#[tokio::test]
async fn the_ticket_travels_in_the_record_and_in_no_output() {
    let (house, _) = house().await;
    let id = house.start_channel().await;
    let ticket = house.log.session(&id).ticket.unwrap();
    assert_eq!(ticket.reveal(), format!("{TICKET}-{id}"));
    // `answer` holds every body to showing no ticket.
    house.get(&format!("/sessions/{id}")).await;
    answer(house.request(ADMIN, Method::GET, "/sessions")).await;
    let request = house.request(READ, Method::GET, &format!("/sessions/{id}/events"));
    let event = Stream::open(request).await.next().await.unwrap();
    assert!(!event.data.to_string().contains(TICKET), "{event:?}");
    assert!(!format!("{:?}", house.log.session(&id)).contains(TICKET));
    assert!(!house.metrics().await.contains(TICKET));
}

#[tokio::test]
async fn a_commit_that_did_not_happen_gives_the_lease_back() {
    let (house, leases) = house().await;
    house.log.creations_end(&[Fault::Refused]);
    assert_eq!(house.intend(json!({"serviceRef": CHANNEL})).await.code(), (503, "V3_UNAVAILABLE"));
    assert_eq!((leases.held(), leases.released.load(Ordering::SeqCst)), (0, 1));
    house.log.set_down(true);
    assert_eq!(house.intend(json!({"serviceRef": CHANNEL})).await.code(), (503, "V3_UNAVAILABLE"));
    assert_eq!((leases.held(), leases.released.load(Ordering::SeqCst)), (0, 2));
    house.log.set_down(false);
    house.start_channel().await;
    assert_eq!(leases.held(), 1);
}

#[tokio::test]
async fn a_wish_that_stands_without_a_lease_is_a_conflict_and_the_lease_is_given_back() {
    let phase2 = House::new().await;
    phase2.start_channel().await;
    let house = Plan::new().phase1().beside(&phase2).build().await;
    let refused = house.intend(json!({"serviceRef": CHANNEL})).await;
    assert_eq!(
        (refused.code(), &refused.headers["retry-after"]),
        ((409, "LEASE_BUSY"), &"1".parse().unwrap())
    );
    assert_eq!((house.leases.as_ref().unwrap().held(), house.log.sessions().len()), (0, 1));
}

#[tokio::test]
async fn a_wish_that_others_record_meanwhile_gives_the_lease_back() {
    let (house, leases) = house().await;
    house.log.creations_end(&[Fault::Overtaken]);
    assert_eq!(house.intend(json!({"serviceRef": CHANNEL})).await.code(), (409, "LEASE_BUSY"));
    assert_eq!((leases.held(), leases.released.load(Ordering::SeqCst)), (0, 1));
    house.log.forget("rival");
    house.log.creations_always_end(Fault::Taken);
    assert_eq!(house.intend(json!({"serviceRef": CHANNEL})).await.code(), (503, "V3_UNAVAILABLE"));
    assert_eq!((leases.held(), house.log.sessions().len()), (0, 0));
}

#[tokio::test]
async fn a_start_that_cannot_be_published_leaves_no_lease() {
    let (house, leases) = house().await;
    house.bus.set_failing(true);
    assert_eq!(house.intend(json!({"serviceRef": CHANNEL})).await.code(), (503, "SERVICE_UNAVAILABLE"));
    assert_eq!((leases.held(), house.log.sessions().len(), house.log.mappings()), (0, 0, 0));
    house.bus.set_failing(false);
    house.start_channel().await;
}

#[tokio::test]
async fn a_commit_without_an_answer_keeps_the_lease_because_a_worker_may_go_on_with_it() {
    let (house, leases) = house().await;
    house.log.creations_always_end(Fault::Lost);
    assert_eq!(house.intend(json!({"serviceRef": CHANNEL})).await.code(), (503, "SERVICE_UNAVAILABLE"));
    assert_eq!((leases.held(), leases.released.load(Ordering::SeqCst)), (1, 0));
}

#[tokio::test]
async fn leases_out_of_reach_are_a_503_and_nothing_is_recorded() {
    let (house, leases) = house().await;
    leases.set_failing(true);
    assert_eq!(house.intend(json!({"serviceRef": CHANNEL})).await.code(), (503, "V3_UNAVAILABLE"));
    assert_eq!(house.traces()[..4], [0; 4]);
    let metrics = house.metrics().await;
    assert!(metrics.contains("mode=\"phase1\",outcome=\"lease_error\"} 1"), "{metrics}");
}

//! Where a meeting runs.

use std::sync::Arc;

use lease::{Claim, Holder, Key, Store, Token, Ttl};
use lease_keeper::OsEntropy;
use lease_store::{Local, Metered, Redis};
use meet_gc::Rules;
use meet_rpc::Kind;
use meet_wire::internal::RejectionReason;
use testkit::RedisServer;
use tokio::task::JoinSet;

use crate::house::{Answer, HOST, House, LIMIT, OTHER, answer};
use crate::nodes::{Mc, Verdict, hold};

/// How often controllers were asked.
fn asked(mcs: &[Mc]) -> usize {
    mcs.iter().map(Mc::asked).sum()
}

async fn mcs(house: &House, number: usize) -> Vec<Mc> {
    let mut mcs = Vec::new();
    for n in 0..number {
        mcs.push(house.mc(&format!("mc-{n}")).await);
    }
    mcs
}

/// Ten joins at once over all doors; gives the controllers that they were sent to.
async fn ten_joins(house: &House, code: &str) -> Vec<String> {
    let mut joins = JoinSet::new();
    for n in 0..10 {
        let door = &house.doors[n % house.doors.len()];
        let request = door.request(OTHER, reqwest::Method::GET, &format!("/meetings/{code}"));
        joins.spawn(async move { answer(request).await });
    }
    let answers = joins.join_all().await;
    let mc_id = |joined: &Answer| {
        assert_eq!(joined.status, 200, "{joined:?}");
        joined.body["mc_assignment"]["mc_id"].as_str().unwrap().to_owned()
    };
    answers.iter().map(mc_id).collect()
}

#[tokio::test]
async fn ten_joins_at_once_are_one_assignment() {
    let mut house = House::new().await;
    house.handlers().await;
    let mcs = mcs(&house, 4).await;
    let made = house.first().create().await;
    let homes = ten_joins(&house, made.text("meeting_code")).await;
    assert!(homes.iter().all(|home| *home == homes[0]), "{homes:?}");
    assert_eq!(asked(&mcs), 1);
}

#[tokio::test]
async fn ten_joins_at_two_global_controllers_on_one_redis_are_one_assignment() {
    let server = RedisServer::start().unwrap();
    let mut stores: Vec<Arc<dyn Store>> = Vec::new();
    for _ in 0..2 {
        stores.push(Arc::new(Redis::open(&format!("{}?quarantine_ms=0", server.url())).await.unwrap()));
    }
    let mut house = House::on(stores, Rules::default()).await;
    house.handlers().await;
    let mcs = mcs(&house, 4).await;
    let made = house.first().create().await;
    let homes = ten_joins(&house, made.text("meeting_code")).await;
    assert!(homes.iter().all(|home| *home == homes[0]), "{homes:?}");
    // Both may ask; one controller has it, and the other one said so.
    assert!((1..=2).contains(&asked(&mcs)), "{}", asked(&mcs));
    let lease = Key::new(format!("meeting:{}", made.text("meeting_id"))).unwrap();
    let holder = house.store.inspect(&lease).await.unwrap().holder.unwrap();
    assert_eq!(holder.as_str(), homes[0]);
    assert_eq!(house.store.history(&lease).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_controller_that_does_not_take_a_meeting_is_followed_by_another() {
    let verdicts = [
        Verdict::Reject(RejectionReason::AtCapacity),
        Verdict::Reject(RejectionReason::Draining),
        Verdict::Reject(RejectionReason::Unhealthy),
        Verdict::Fail,
    ];
    for verdict in verdicts {
        let mut house = House::new().await;
        house.handlers().await;
        let mcs = mcs(&house, 3).await;
        mcs[..2].iter().for_each(|mc| mc.says(verdict.clone()));
        let made = house.first().create().await;
        let joined = house.first().join(HOST, made.text("meeting_code")).await;
        assert_eq!(joined.body["mc_assignment"]["mc_id"], "mc-2", "{verdict:?}: {joined:?}");
        assert!(mcs.iter().all(|mc| mc.asked() <= 1), "nobody is asked twice");
    }
}

#[tokio::test]
async fn three_rejections_are_the_end_until_somebody_asks_again() {
    let mut house = House::new().await;
    house.handlers().await;
    let mcs = mcs(&house, 5).await;
    mcs.iter().for_each(|mc| mc.says(Verdict::Reject(RejectionReason::AtCapacity)));
    let made = house.first().create().await;
    let code = made.text("meeting_code");
    let refused = house.first().join(HOST, code).await;
    assert_eq!(refused.code(), (503, "SERVICE_UNAVAILABLE"));
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(asked(&mcs), 3);
    assert!(mcs.iter().all(|mc| mc.asked() <= 1));
    mcs.iter().for_each(|mc| mc.says(Verdict::Take));
    assert_eq!(house.first().join(HOST, code).await.status, 200);
}

#[tokio::test]
async fn ten_joins_that_wait_for_one_refusal_all_hear_it_and_nobody_is_asked_again() {
    service::telemetry::metrics_text();
    let store: Arc<dyn Store> = Arc::new(Metered::new(Arc::new(Local::memory()) as Arc<dyn Store>));
    let mut house = House::on(vec![store], Rules::default()).await;
    house.handlers().await;
    let mcs = mcs(&house, 5).await;
    for mc in &mcs {
        mc.says(Verdict::Reject(RejectionReason::AtCapacity));
        mc.answers(false);
    }
    let made = house.first().create().await;
    let path = format!("/meetings/{}", made.text("meeting_code"));
    let mut joins = JoinSet::new();
    for _ in 0..10 {
        let request = house.first().request(OTHER, reqwest::Method::GET, &path);
        joins.spawn(async move { answer(request).await });
    }
    // Each looks once who has the meeting; the one that asks looks again.
    let looked = || service::telemetry::metrics_text().contains("{verb=\"inspect\",result=\"ok\"} 11\n");
    testkit::wait::until_async("all have looked", LIMIT, async || looked()).await.unwrap();
    mcs.iter().for_each(|mc| mc.answers(true));
    for refused in joins.join_all().await {
        assert_eq!(refused.code(), (503, "SERVICE_UNAVAILABLE"));
    }
    assert_eq!(asked(&mcs), 3);
}

#[tokio::test]
async fn without_a_handler_or_a_controller_there_is_no_meeting() {
    let house = House::new().await;
    let mc = house.mc("mc-1").await;
    let made = house.first().create().await;
    let code = made.text("meeting_code");
    assert_eq!(house.first().join(HOST, code).await.code(), (503, "SERVICE_UNAVAILABLE"));
    assert_eq!(mc.asked(), 0);
    let mut alone = House::new().await;
    alone.handlers().await;
    let made = alone.first().create().await;
    let refused = alone.first().join(HOST, made.text("meeting_code")).await;
    assert_eq!(refused.code(), (503, "SERVICE_UNAVAILABLE"));
}

#[tokio::test]
async fn one_handler_alone_is_used_and_said() {
    let house = House::new().await;
    let _handler = hold(&house.store, Kind::Handler, "mh-1", "a").await;
    let mc = house.mc("mc-1").await;
    let made = house.first().create().await;
    assert_eq!(house.first().join(HOST, made.text("meeting_code")).await.status, 200);
    let asked = mc.desk.asked.lock()[0].clone();
    assert_eq!((asked.mh_assignments.len(), asked.degraded_placement), (1, true));
}

#[tokio::test]
async fn a_meeting_whose_controller_left_is_given_to_another() {
    let (house, mut first) = House::furnished().await;
    let made = house.first().create().await;
    let code = made.text("meeting_code");
    let joined = house.first().join(HOST, code).await;
    assert_eq!(joined.body["mc_assignment"]["mc_id"], "mc-1");
    let second = house.mc("mc-2").await;
    first.leave().await;
    let joined = house.first().join(HOST, code).await;
    assert_eq!(joined.body["mc_assignment"]["mc_id"], "mc-2", "{joined:?}");
    assert_eq!((first.asked(), second.asked()), (1, 1));
}

#[tokio::test]
async fn a_meeting_that_ended_by_itself_is_given_out_again() {
    let (house, mc) = House::furnished().await;
    let made = house.first().create().await;
    let code = made.text("meeting_code");
    for times in 1..=2 {
        assert_eq!(house.first().join(HOST, code).await.status, 200);
        assert_eq!(mc.asked(), times);
        mc.end_meetings().await;
    }
}

#[tokio::test]
async fn a_join_waits_until_the_lease_of_a_dead_controller_has_run_out() {
    let (house, mc) = House::furnished().await;
    let made = house.first().create().await;
    // A controller that is not in the registry any more holds the meeting for another second.
    let key = Key::new(format!("meeting:{}", made.text("meeting_id"))).unwrap();
    let holder = Holder::new("mc-dead").unwrap();
    let claim = Claim::new(key, holder, Token::random(&OsEntropy), Ttl::from_secs(1).unwrap());
    house.store.acquire(claim).await.unwrap();
    let joined = house.first().join(HOST, made.text("meeting_code")).await;
    assert_eq!(joined.body["mc_assignment"]["mc_id"], "mc-1", "{joined:?}");
    assert_eq!(mc.asked(), 1);
}

#[tokio::test]
async fn who_already_owns_a_meeting_is_returned() {
    let (house, first) = House::furnished().await;
    let second = house.mc("mc-2").await;
    let made = house.first().create().await;
    first.says(Verdict::Owned("mc-2".to_owned()));
    second.says(Verdict::Owned("mc-1".to_owned()));
    let joined = house.first().join(HOST, made.text("meeting_code")).await;
    assert_eq!(joined.status, 200, "{joined:?}");
    let home = joined.body["mc_assignment"]["mc_id"].as_str().unwrap();
    let other = if first.asked() == 1 { "mc-2" } else { "mc-1" };
    assert_eq!(home, other, "the owner that was named, and not the one that was asked");
}

#[tokio::test]
async fn a_store_that_is_gone_is_503_and_not_a_hang() {
    let server = RedisServer::start().unwrap();
    let store: Arc<dyn Store> =
        Arc::new(Redis::open(&format!("{}?quarantine_ms=0", server.url())).await.unwrap());
    let house = House::on(vec![store], Rules::default()).await;
    let made = house.first().create().await;
    server.kill9().unwrap();
    let refused = house.first().join(HOST, made.text("meeting_code")).await;
    assert_eq!(refused.code(), (503, "SERVICE_UNAVAILABLE"));
}

//! Assignment of meetings to controllers.

use std::sync::Arc;

use tenure_keeper::OsEntropy;
use tenure_lease::{Claim, Holder, Key, Store, Token, Ttl};
use tenure_meet_gc::Rules;
use tenure_meet_rpc::Kind;
use tenure_meet_wire::internal::RejectionReason;
use tenure_store::{Local, Metered, Redis};
use tenure_testkit::RedisServer;
use tokio::task::JoinSet;

use crate::nodes::{Mc, Verdict, hold};
use crate::test_gc::{Answer, HOST, LIMIT, OTHER, TestGc, answer};

/// Assignment requests received by all controllers.
fn asked(mcs: &[Mc]) -> usize {
    mcs.iter().map(Mc::asked).sum()
}

async fn mcs(test_gc: &TestGc, number: usize) -> Vec<Mc> {
    let mut mcs = Vec::new();
    for n in 0..number {
        mcs.push(test_gc.mc(&format!("mc-{n}")).await);
    }
    mcs
}

/// Ten concurrent joins across all servers. Returns the controllers they were sent to.
async fn ten_joins(test_gc: &TestGc, code: &str) -> Vec<String> {
    let mut joins = JoinSet::new();
    for n in 0..10 {
        let server = &test_gc.servers[n % test_gc.servers.len()];
        let request = server.request(OTHER, reqwest::Method::GET, &format!("/meetings/{code}"));
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
async fn ten_concurrent_joins_make_one_assignment() {
    let mut test_gc = TestGc::new().await;
    test_gc.handlers().await;
    let mcs = mcs(&test_gc, 4).await;
    let made = test_gc.first().create().await;
    let homes = ten_joins(&test_gc, made.text("meeting_code")).await;
    assert!(homes.iter().all(|home| *home == homes[0]), "{homes:?}");
    assert_eq!(asked(&mcs), 1);
}

#[tokio::test]
async fn ten_joins_at_two_global_controllers_on_one_redis_make_one_assignment() {
    let server = RedisServer::start().unwrap();
    let mut stores: Vec<Arc<dyn Store>> = Vec::new();
    for _ in 0..2 {
        stores.push(Arc::new(Redis::open(&format!("{}?quarantine_ms=0", server.url())).await.unwrap()));
    }
    let mut test_gc = TestGc::on(stores, Rules::default()).await;
    test_gc.handlers().await;
    let mcs = mcs(&test_gc, 4).await;
    let made = test_gc.first().create().await;
    let homes = ten_joins(&test_gc, made.text("meeting_code")).await;
    assert!(homes.iter().all(|home| *home == homes[0]), "{homes:?}");
    // Both may send a request. One controller owns the meeting, and the other reports that.
    assert!((1..=2).contains(&asked(&mcs)), "{}", asked(&mcs));
    let lease = Key::new(format!("meeting:{}", made.text("meeting_id"))).unwrap();
    let holder = test_gc.store.inspect(&lease).await.unwrap().holder.unwrap();
    assert_eq!(holder.as_str(), homes[0]);
    assert_eq!(test_gc.store.history(&lease).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_rejected_meeting_is_offered_to_another_controller() {
    let verdicts = [
        Verdict::Reject(RejectionReason::AtCapacity),
        Verdict::Reject(RejectionReason::Draining),
        Verdict::Reject(RejectionReason::Unhealthy),
        Verdict::Fail,
    ];
    for verdict in verdicts {
        let mut test_gc = TestGc::new().await;
        test_gc.handlers().await;
        let mcs = mcs(&test_gc, 3).await;
        mcs[..2].iter().for_each(|mc| mc.says(verdict.clone()));
        let made = test_gc.first().create().await;
        let joined = test_gc.first().join(HOST, made.text("meeting_code")).await;
        assert_eq!(joined.body["mc_assignment"]["mc_id"], "mc-2", "{verdict:?}: {joined:?}");
        assert!(mcs.iter().all(|mc| mc.asked() <= 1), "no controller is asked twice");
    }
}

#[tokio::test]
async fn three_rejections_fail_the_join_until_the_next_one() {
    let mut test_gc = TestGc::new().await;
    test_gc.handlers().await;
    let mcs = mcs(&test_gc, 5).await;
    mcs.iter().for_each(|mc| mc.says(Verdict::Reject(RejectionReason::AtCapacity)));
    let made = test_gc.first().create().await;
    let code = made.text("meeting_code");
    let refused = test_gc.first().join(HOST, code).await;
    assert_eq!(refused.code(), (503, "SERVICE_UNAVAILABLE"));
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(asked(&mcs), 3);
    assert!(mcs.iter().all(|mc| mc.asked() <= 1));
    mcs.iter().for_each(|mc| mc.says(Verdict::Take));
    assert_eq!(test_gc.first().join(HOST, code).await.status, 200);
}

#[tokio::test]
async fn ten_joins_share_one_rejection_without_further_requests() {
    tenure_service::telemetry::metrics_text();
    let store: Arc<dyn Store> = Arc::new(Metered::new(Arc::new(Local::memory()) as Arc<dyn Store>));
    let mut test_gc = TestGc::on(vec![store], Rules::default()).await;
    test_gc.handlers().await;
    let mcs = mcs(&test_gc, 5).await;
    for mc in &mcs {
        mc.says(Verdict::Reject(RejectionReason::AtCapacity));
        mc.answers(false);
    }
    let made = test_gc.first().create().await;
    let path = format!("/meetings/{}", made.text("meeting_code"));
    let mut joins = JoinSet::new();
    for _ in 0..10 {
        let request = test_gc.first().request(OTHER, reqwest::Method::GET, &path);
        joins.spawn(async move { answer(request).await });
    }
    // Each join inspects the lease once. The one that assigns inspects it again.
    let looked =
        || tenure_service::telemetry::metrics_text().contains("{verb=\"inspect\",result=\"ok\"} 11\n");
    tenure_testkit::wait::until_async("all joins have inspected the lease", LIMIT, async || looked())
        .await
        .unwrap();
    mcs.iter().for_each(|mc| mc.answers(true));
    for refused in joins.join_all().await {
        assert_eq!(refused.code(), (503, "SERVICE_UNAVAILABLE"));
    }
    assert_eq!(asked(&mcs), 3);
}

#[tokio::test]
async fn a_join_fails_without_a_handler_or_a_controller() {
    let test_gc = TestGc::new().await;
    let mc = test_gc.mc("mc-1").await;
    let made = test_gc.first().create().await;
    let code = made.text("meeting_code");
    assert_eq!(test_gc.first().join(HOST, code).await.code(), (503, "SERVICE_UNAVAILABLE"));
    assert_eq!(mc.asked(), 0);
    let mut alone = TestGc::new().await;
    alone.handlers().await;
    let made = alone.first().create().await;
    let refused = alone.first().join(HOST, made.text("meeting_code")).await;
    assert_eq!(refused.code(), (503, "SERVICE_UNAVAILABLE"));
}

#[tokio::test]
async fn a_single_handler_is_used_and_counted() {
    let test_gc = TestGc::new().await;
    let _handler = hold(&test_gc.store, Kind::Handler, "mh-1", "a").await;
    let mc = test_gc.mc("mc-1").await;
    let made = test_gc.first().create().await;
    assert_eq!(test_gc.first().join(HOST, made.text("meeting_code")).await.status, 200);
    let asked = mc.fake.asked.lock()[0].clone();
    assert_eq!((asked.mh_assignments.len(), asked.degraded_placement), (1, true));
}

#[tokio::test]
async fn a_meeting_moves_when_its_controller_leaves() {
    let (test_gc, mut first) = TestGc::furnished().await;
    let made = test_gc.first().create().await;
    let code = made.text("meeting_code");
    let joined = test_gc.first().join(HOST, code).await;
    assert_eq!(joined.body["mc_assignment"]["mc_id"], "mc-1");
    let second = test_gc.mc("mc-2").await;
    first.leave().await;
    let joined = test_gc.first().join(HOST, code).await;
    assert_eq!(joined.body["mc_assignment"]["mc_id"], "mc-2", "{joined:?}");
    assert_eq!((first.asked(), second.asked()), (1, 1));
}

#[tokio::test]
async fn an_ended_meeting_is_assigned_again() {
    let (test_gc, mc) = TestGc::furnished().await;
    let made = test_gc.first().create().await;
    let code = made.text("meeting_code");
    for times in 1..=2 {
        assert_eq!(test_gc.first().join(HOST, code).await.status, 200);
        assert_eq!(mc.asked(), times);
        mc.end_meetings().await;
    }
}

#[tokio::test]
async fn a_join_waits_until_the_lease_of_a_dead_controller_expires() {
    let (test_gc, mc) = TestGc::furnished().await;
    let made = test_gc.first().create().await;
    // An unregistered controller holds the meeting for another second.
    let key = Key::new(format!("meeting:{}", made.text("meeting_id"))).unwrap();
    let holder = Holder::new("mc-dead").unwrap();
    let claim = Claim::new(key, holder, Token::random(&OsEntropy), Ttl::from_secs(1).unwrap());
    test_gc.store.acquire(claim).await.unwrap();
    let joined = test_gc.first().join(HOST, made.text("meeting_code")).await;
    assert_eq!(joined.body["mc_assignment"]["mc_id"], "mc-1", "{joined:?}");
    assert_eq!(mc.asked(), 1);
}

#[tokio::test]
async fn the_owner_named_by_a_rejection_is_returned() {
    let (test_gc, first) = TestGc::furnished().await;
    let second = test_gc.mc("mc-2").await;
    let made = test_gc.first().create().await;
    first.says(Verdict::Owned("mc-2".to_owned()));
    second.says(Verdict::Owned("mc-1".to_owned()));
    let joined = test_gc.first().join(HOST, made.text("meeting_code")).await;
    assert_eq!(joined.status, 200, "{joined:?}");
    let home = joined.body["mc_assignment"]["mc_id"].as_str().unwrap();
    let other = if first.asked() == 1 { "mc-2" } else { "mc-1" };
    assert_eq!(home, other, "the named owner, not the controller that was asked");
}

#[tokio::test]
async fn an_unavailable_store_returns_503_without_hanging() {
    let server = RedisServer::start().unwrap();
    let store: Arc<dyn Store> =
        Arc::new(Redis::open(&format!("{}?quarantine_ms=0", server.url())).await.unwrap());
    let test_gc = TestGc::on(vec![store], Rules::default()).await;
    let made = test_gc.first().create().await;
    server.kill9().unwrap();
    let refused = test_gc.first().join(HOST, made.text("meeting_code")).await;
    assert_eq!(refused.code(), (503, "SERVICE_UNAVAILABLE"));
}

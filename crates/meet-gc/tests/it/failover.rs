//! Decisions about reported controllers.

use serde_json::json;
use tenure_meet_wire::jwt::ServiceType;
use tenure_testkit::wait;

use crate::nodes::Mc;
use crate::reports::{Member, report, write_participant};
use crate::test_gc::{Answer, HOST, LIMIT, OTHER, TestGc, answer};

/// A meeting of three users on the controller `mc-1`.
struct Meeting {
    id: String,
    code: String,
    members: Vec<Member>,
}

async fn meeting(test_gc: &TestGc) -> Meeting {
    let made = test_gc.first().create().await;
    let (id, code) = (made.text("meeting_id").to_owned(), made.text("meeting_code").to_owned());
    let ada = test_gc.authority.user("ada", "", "", &[]).unwrap();
    let mut members = Vec::new();
    for (n, bearer) in [HOST, OTHER, &ada].into_iter().enumerate() {
        members.push(Member::join(test_gc, bearer, &code).await);
        write_participant(test_gc, &id, &format!("s{n}"), &members[n].user).await;
    }
    Meeting { id, code, members }
}

impl Meeting {
    async fn report(&self, test_gc: &TestGc, member: usize) -> Answer {
        let body = json!({"mc_id": "mc-1", "reason": "TIMEOUT"});
        report(test_gc, &self.members[member].token, &self.id, body).await
    }
}

fn home(answer: &Answer) -> (&str, u64) {
    let home = &answer.body["mc_assignment"];
    let generation = home["generation"].as_str().map_or(0, |text| text.parse().unwrap());
    (home["mc_id"].as_str().unwrap_or_default(), generation)
}

/// A global controller, handlers, a meeting on `mc-1`, and further controllers.
async fn furnished(others: &[&str]) -> (TestGc, Meeting, Mc, Vec<Mc>) {
    let (test_gc, first) = TestGc::furnished().await;
    let meeting = meeting(&test_gc).await;
    let mut mcs = Vec::new();
    for id in others {
        mcs.push(test_gc.mc(id).await);
    }
    (test_gc, meeting, first, mcs)
}

#[tokio::test]
async fn the_first_report_of_a_dead_controller_gives_the_meeting_to_another_one() {
    let (test_gc, meeting, first, others) = furnished(&["mc-2"]).await;
    let (_, before) = home(&test_gc.first().join(HOST, &meeting.code).await);
    first.die();
    let answer = meeting.report(&test_gc, 1).await;
    assert_eq!(answer.body["failover_started"], true, "{answer:?}");
    let (mc_id, generation) = home(&answer);
    assert_eq!(mc_id, "mc-2");
    assert!(generation > before, "{generation} after {before}");
    assert_eq!(others[0].replaced(), [before], "its lease was taken without waiting for the expiry");
    assert_eq!(home(&test_gc.first().join(OTHER, &meeting.code).await), ("mc-2", generation));
    assert_eq!(
        home(&meeting.report(&test_gc, 2).await),
        ("mc-2", generation),
        "later reports learn the home"
    );
}

#[tokio::test]
async fn a_restarted_controller_takes_its_meeting_again() {
    let (test_gc, meeting, first, _) = furnished(&[]).await;
    let (_, before) = home(&test_gc.first().join(HOST, &meeting.code).await);
    first.restart();
    let answer = meeting.report(&test_gc, 0).await;
    let (mc_id, generation) = home(&answer);
    assert_eq!((mc_id, answer.body["failover_started"].as_bool()), ("mc-1", Some(true)), "{answer:?}");
    assert!(generation > before);
    assert_eq!(first.replaced().last(), Some(&before));
}

#[tokio::test]
async fn a_live_controller_keeps_its_meeting_until_a_quorum_reports() {
    let (test_gc, meeting, first, _others) = furnished(&["mc-2"]).await;
    let body = json!({"mc_id": "mc-1", "reason": "TIMEOUT", "suspect": true});
    let suspect = report(&test_gc, &meeting.members[0].token, &meeting.id, body).await;
    assert_eq!((suspect.body["reports"].as_u64(), home(&suspect).0), (Some(0), "mc-1"), "only a probe");
    let one = meeting.report(&test_gc, 0).await;
    assert_eq!((one.body["failover_started"].as_bool(), home(&one).0), (Some(false), "mc-1"));
    assert!(first.fake.moves.lock().is_empty());
    let two = meeting.report(&test_gc, 1).await;
    assert_eq!((two.body["reports"].as_u64(), two.body["quorum"].as_u64()), (Some(2), Some(2)));
    let orders = first.fake.moves.lock().clone();
    assert_eq!(orders.len(), 1, "it gets the order to move the meeting");
    assert_eq!(orders[0].assignments[0].target_mc_id, "mc-2");
    assert_eq!(home(&two).0, "mc-1", "it refused");
}

#[tokio::test]
async fn a_controller_that_another_one_reaches_is_not_dead() {
    let (test_gc, meeting, first, others) = furnished(&["mc-2"]).await;
    first.ignore(ServiceType::GlobalController);
    let answer = meeting.report(&test_gc, 0).await;
    assert_eq!((answer.body["failover_started"].as_bool(), home(&answer).0), (Some(false), "mc-1"));
    assert_eq!(others[0].asked(), 0);
    first.ignore(ServiceType::MeetingController);
    assert_eq!(home(&meeting.report(&test_gc, 0).await).0, "mc-2");
}

#[tokio::test]
async fn nothing_is_taken_away_when_most_controllers_vanish_at_once() {
    let (test_gc, meeting, first, others) = furnished(&["mc-2", "mc-3"]).await;
    // The registry is read every few seconds.
    let counted = || tenure_service::telemetry::metrics_text().contains("gc_registered_nodes{kind=\"mc\"} 3");
    wait::until_async("all controllers are known", LIMIT, async || counted()).await.unwrap();
    first.die();
    others.iter().for_each(Mc::die);
    let answer = meeting.report(&test_gc, 0).await;
    assert_eq!((answer.body["failover_started"].as_bool(), home(&answer).0), (Some(false), "mc-1"));
    assert!(others.iter().all(|mc| mc.asked() == 0));
}

#[tokio::test]
async fn a_dead_controller_is_never_named_again_also_if_no_other_takes_the_meeting() {
    let (test_gc, meeting, first, _) = furnished(&[]).await;
    first.die();
    let answer = meeting.report(&test_gc, 0).await;
    assert_eq!(answer.body["failover_started"], true);
    assert!(answer.body.get("mc_assignment").is_none(), "{answer:?}");
    let joined = test_gc.first().join(HOST, &meeting.code).await;
    assert_eq!(joined.code(), (503, "SERVICE_UNAVAILABLE"));
    let _second = test_gc.mc("mc-2").await;
    assert_eq!(home(&test_gc.first().join(HOST, &meeting.code).await).0, "mc-2");
}

#[tokio::test]
async fn two_global_controllers_that_decide_at_once_name_the_same_home() {
    let (mut test_gc, first) = TestGc::furnished().await;
    test_gc.add_server().await;
    let meeting = meeting(&test_gc).await;
    let _others = [test_gc.mc("mc-2").await, test_gc.mc("mc-3").await];
    first.die();
    let body = || json!({"mc_id": "mc-1"});
    let path = format!("/meetings/{}/unreachable", meeting.id);
    let ask = |n: usize| {
        let token = &meeting.members[n].token;
        answer(test_gc.servers[n].request(token, reqwest::Method::POST, &path).json(&body()))
    };
    let (one, two) = tokio::join!(ask(0), ask(1));
    let answers = [one, two];
    let homes: Vec<&str> = answers.iter().map(|answer| home(answer).0).collect();
    assert!(homes[0] != "mc-1" && homes[0] == homes[1], "{homes:?}");
}

#[tokio::test]
async fn the_answer_comes_within_three_seconds() {
    let (test_gc, meeting, first, others) = furnished(&["mc-2"]).await;
    first.die();
    // The only other controller answers probes and takes nothing.
    others[0].meanwhile(std::future::pending());
    let asked = meeting.report(&test_gc, 0).await;
    assert!(asked.status.is_success() && asked.body.get("mc_assignment").is_none(), "{asked:?}");
}

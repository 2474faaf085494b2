//! Reports of unreachable controllers.

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};
use tenure_lease::{Key, Op};
use tenure_meet_wire::internal::ReportMcUnreachableRequest;
use tenure_meet_wire::internal::global_controller_service_client::GlobalControllerServiceClient;
use tenure_meet_wire::jwt::{GuestClaims, MeetingClaims};
use tonic::Code;

use crate::test_gc::{Answer, HOST, OTHER, TestGc, answer};

/// A user with its meeting token.
pub(crate) struct Member {
    pub(crate) user: String,
    pub(crate) token: String,
}

impl Member {
    pub(crate) async fn join(test_gc: &TestGc, bearer: &str, code: &str) -> Self {
        let joined = test_gc.first().join(bearer, code).await;
        let user = test_gc.claims::<MeetingClaims>(&joined).sub;
        Self { user, token: joined.text("token").to_owned() }
    }
}

/// Writes a participant record as the controller of the meeting does.
pub(crate) async fn write_participant(test_gc: &TestGc, meeting: &str, participant: &str, user: &str) {
    let key = Key::new(format!("meeting:{meeting}:seat:{participant}")).unwrap();
    let value =
        Arc::from(json!({"participant": participant, "user": user, "name": "x"}).to_string().into_bytes());
    test_gc.store.commit(&[Op::Put { key, value, ttl: None }]).await.unwrap();
}

pub(crate) async fn report(test_gc: &TestGc, token: &str, meeting: &str, body: Value) -> Answer {
    let path = format!("/meetings/{meeting}/unreachable");
    answer(test_gc.first().request(token, Method::POST, &path).json(&body)).await
}

#[tokio::test]
async fn each_user_counts_once_and_more_than_half_are_a_quorum() {
    let (test_gc, mc) = TestGc::furnished().await;
    let made = test_gc.first().create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    let ada = test_gc.authority.user("ada", "", "", &[]).unwrap();
    let mut members = Vec::new();
    for bearer in [HOST, OTHER, &ada] {
        members.push(Member::join(&test_gc, bearer, code).await);
    }
    for (n, member) in members.iter().enumerate() {
        write_participant(&test_gc, id, &format!("s{n}"), &member.user).await;
    }
    // The host has two participants but counts as one user.
    write_participant(&test_gc, id, "again", &members[0].user).await;
    let body = || json!({"mc_id": "mc-1", "reason": "timeout"});
    let tally = |answer: Answer| {
        assert_eq!(answer.body["failover_started"], false, "{answer:?}");
        assert_eq!(answer.body["mc_assignment"]["mc_id"], "mc-1", "{answer:?}");
        (answer.body["reports"].as_u64().unwrap(), answer.body["quorum"].as_u64().unwrap())
    };
    assert_eq!(tally(report(&test_gc, &members[0].token, id, body()).await), (1, 2));
    assert_eq!(tally(report(&test_gc, &members[0].token, id, body()).await), (1, 2));
    assert_eq!(tally(report(&test_gc, &members[1].token, id, body()).await), (2, 2));

    // The same over gRPC, with the reporter's own token.
    let line = test_gc.speaking("mc").to("inproc:gc").unwrap();
    let mut client = GlobalControllerServiceClient::new(line);
    let request = ReportMcUnreachableRequest {
        mc_id: "mc-1".to_owned(),
        meeting_id: id.to_owned(),
        join_token: members[2].token.clone(),
        ..ReportMcUnreachableRequest::default()
    };
    let answer = client.report_mc_unreachable(request.clone()).await.unwrap().into_inner();
    assert_eq!((answer.reports, answer.quorum, answer.failover_started), (3, 2, false));
    let forged = ReportMcUnreachableRequest { join_token: "a.b.c".to_owned(), ..request };
    assert_eq!(client.report_mc_unreachable(forged).await.unwrap_err().code(), Code::Unauthenticated);
    assert!(*mc.fake.probes.lock() >= 1, "a report probes the controller");
}

#[tokio::test]
async fn only_participants_may_report_the_current_owner() {
    let (test_gc, mut mc) = TestGc::furnished().await;
    let made = test_gc.first().create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    let host = Member::join(&test_gc, HOST, code).await;
    let stranger = Member::join(&test_gc, OTHER, code).await;
    write_participant(&test_gc, id, "s1", &host.user).await;
    let body = || json!({"mc_id": "mc-1"});
    assert_eq!(report(&test_gc, &stranger.token, id, body()).await.code(), (403, "FORBIDDEN"));
    for token in ["nonsense", HOST] {
        assert_eq!(report(&test_gc, token, id, body()).await.code(), (401, "INVALID_TOKEN"), "{token}");
    }
    let other = test_gc.first().create().await;
    let elsewhere = report(&test_gc, &host.token, other.text("meeting_id"), body()).await;
    assert_eq!(elsewhere.code(), (401, "INVALID_TOKEN"));
    let other = report(&test_gc, &host.token, id, json!({"mc_id": "mc-9"})).await;
    assert_eq!(other.body["mc_assignment"]["mc_id"], "mc-1", "the answer names the owner");
    for bad in [json!({}), json!({"mc_id": "mc-1", "n": 1})] {
        assert_eq!(report(&test_gc, &host.token, id, bad).await.code(), (400, "BAD_REQUEST"));
    }
    for odd in [json!({"mc_id": "mc-1", "reason": "bored"}), json!({"mc_id": "mc-1", "reason": 7})] {
        let taken = report(&test_gc, &host.token, id, odd.clone()).await;
        assert_eq!((taken.status.as_u16(), taken.body["reports"].as_u64()), (200, Some(1)), "{odd}");
    }
    let alone = report(&test_gc, &host.token, id, body()).await;
    assert_eq!((alone.body["reports"].as_u64(), alone.body["quorum"].as_u64()), (Some(1), Some(1)));
    mc.leave_the_registry().await;
    let gone = report(&test_gc, &host.token, id, body()).await;
    assert_eq!(gone.body["failover_started"], false, "it still answers probes");
    assert!(gone.body.get("mc_assignment").is_none(), "join again");
}

#[tokio::test]
async fn a_guest_may_report_too() {
    let (test_gc, _mc) = TestGc::furnished().await;
    let made = test_gc.first().create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    let guest = test_gc.first().guest(code, "Ada", None).await;
    let joined = test_gc.first().join(guest.text("token"), code).await;
    let claims: GuestClaims = test_gc.claims(&joined);
    write_participant(&test_gc, id, "s1", &claims.sub).await;
    let body = json!({"mc_id": "mc-1", "reason": "connection_refused"});
    assert_eq!(report(&test_gc, joined.text("token"), id, body).await.body["reports"], 1);
}

#[tokio::test]
async fn reports_are_rate_limited_by_user() {
    let (test_gc, _mc) = TestGc::furnished().await;
    let made = test_gc.first().create().await;
    let id = made.text("meeting_id");
    let host = Member::join(&test_gc, HOST, made.text("meeting_code")).await;
    write_participant(&test_gc, id, "s1", &host.user).await;
    let mut slowed = false;
    for _ in 0..200 {
        let answer = report(&test_gc, &host.token, id, json!({"mc_id": "mc-1"})).await;
        slowed = answer.status == 429;
        if slowed {
            break;
        }
        assert_eq!(answer.body["reports"], 1, "{answer:?}");
    }
    assert!(slowed, "twenty at once, and then one every three seconds");
}

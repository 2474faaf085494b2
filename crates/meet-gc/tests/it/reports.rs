//! Controllers that clients cannot reach.

use std::sync::Arc;

use lease::{Key, Op};
use meet_wire::internal::ReportMcUnreachableRequest;
use meet_wire::internal::global_controller_service_client::GlobalControllerServiceClient;
use meet_wire::jwt::{GuestClaims, MeetingClaims};
use reqwest::Method;
use serde_json::{Value, json};
use tonic::Code;

use crate::house::{Answer, HOST, House, OTHER, answer};

/// A user with its token for the meeting.
struct Member {
    user: String,
    token: String,
}

impl Member {
    async fn join(house: &House, bearer: &str, code: &str) -> Self {
        let joined = house.first().join(bearer, code).await;
        let user = house.claims::<MeetingClaims>(&joined).sub;
        Self { user, token: joined.text("token").to_owned() }
    }
}

/// Writes a seat as the controller of the meeting does.
async fn sit(house: &House, meeting: &str, seat: &str, user: &str) {
    let key = Key::new(format!("meeting:{meeting}:seat:{seat}")).unwrap();
    let value = Arc::from(json!({"participant": seat, "user": user, "name": "x"}).to_string().into_bytes());
    house.store.commit(&[Op::Put { key, value, ttl: None }]).await.unwrap();
}

async fn report(house: &House, token: &str, meeting: &str, body: Value) -> Answer {
    let path = format!("/meetings/{meeting}/unreachable");
    answer(house.first().request(token, Method::POST, &path).json(&body)).await
}

#[tokio::test]
async fn each_user_counts_once_and_more_than_half_are_a_quorum() {
    let (house, mc) = House::furnished().await;
    let made = house.first().create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    let ada = house.authority.user("ada", "", "", &[]).unwrap();
    let mut members = Vec::new();
    for bearer in [HOST, OTHER, &ada] {
        members.push(Member::join(&house, bearer, code).await);
    }
    for (n, member) in members.iter().enumerate() {
        sit(&house, id, &format!("s{n}"), &member.user).await;
    }
    // The host sits there twice, and is one user.
    sit(&house, id, "again", &members[0].user).await;
    let body = || json!({"mc_id": "mc-1", "reason": "timeout"});
    let tally = |reports: u32| json!({"reports": reports, "quorum": 2, "failover_started": false});
    assert_eq!(report(&house, &members[0].token, id, body()).await.body, tally(1));
    assert_eq!(report(&house, &members[0].token, id, body()).await.body, tally(1));
    assert_eq!(report(&house, &members[1].token, id, body()).await.body, tally(2));

    // The same by gRPC, under the reporter's own token.
    let line = house.speaking("mc").to("inproc:gc").unwrap();
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
    assert_eq!(*mc.desk.probes.lock(), 1, "the controller was asked itself, at the first report");
}

#[tokio::test]
async fn a_report_counts_only_of_who_sits_there_about_who_has_the_meeting() {
    let (house, mut mc) = House::furnished().await;
    let made = house.first().create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    let host = Member::join(&house, HOST, code).await;
    let stranger = Member::join(&house, OTHER, code).await;
    sit(&house, id, "s1", &host.user).await;
    let body = || json!({"mc_id": "mc-1"});
    assert_eq!(report(&house, &stranger.token, id, body()).await.code(), (403, "FORBIDDEN"));
    for token in ["nonsense", HOST] {
        assert_eq!(report(&house, token, id, body()).await.code(), (401, "INVALID_TOKEN"), "{token}");
    }
    let other = house.first().create().await;
    let elsewhere = report(&house, &host.token, other.text("meeting_id"), body()).await;
    assert_eq!(elsewhere.code(), (401, "INVALID_TOKEN"));
    assert_eq!(report(&house, &host.token, id, json!({"mc_id": "mc-9"})).await.code(), (409, "CONFLICT"));
    for bad in [json!({}), json!({"mc_id": "mc-1", "reason": "bored"}), json!({"mc_id": "mc-1", "n": 1})] {
        assert_eq!(report(&house, &host.token, id, bad.clone()).await.code(), (400, "BAD_REQUEST"), "{bad}");
    }
    let alone = report(&house, &host.token, id, body()).await;
    assert_eq!(alone.body, json!({"reports": 1, "quorum": 1, "failover_started": false}));
    mc.leave_the_registry().await;
    assert_eq!(report(&house, &host.token, id, body()).await.code(), (409, "CONFLICT"), "join again");
}

#[tokio::test]
async fn a_guest_may_report_as_well() {
    let (house, _mc) = House::furnished().await;
    let made = house.first().create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    let guest = house.first().guest(code, "Ada", None).await;
    let joined = house.first().join(guest.text("token"), code).await;
    let claims: GuestClaims = house.claims(&joined);
    sit(&house, id, "s1", &claims.sub).await;
    let body = json!({"mc_id": "mc-1", "reason": "connection_refused"});
    assert_eq!(report(&house, joined.text("token"), id, body).await.body["reports"], 1);
}

#[tokio::test]
async fn who_reports_all_the_time_is_slowed_down() {
    let (house, _mc) = House::furnished().await;
    let made = house.first().create().await;
    let id = made.text("meeting_id");
    let host = Member::join(&house, HOST, made.text("meeting_code")).await;
    sit(&house, id, "s1", &host.user).await;
    let mut slowed = false;
    for _ in 0..200 {
        let answer = report(&house, &host.token, id, json!({"mc_id": "mc-1"})).await;
        slowed = answer.status == 429;
        if slowed {
            break;
        }
        assert_eq!(answer.body["reports"], 1, "{answer:?}");
    }
    assert!(slowed, "twenty at once, and then one every three seconds");
}

//! Meetings over REST.

use meet_wire::internal::RejectionReason;
use meet_wire::jwt::{MeetingClaims, ParticipantType, Role};
use reqwest::Method;
use serde_json::json;

use crate::house::{HOST, House, OTHER, answer};
use crate::nodes::Verdict;

#[tokio::test]
async fn a_meeting_is_made_and_joined_by_its_host_and_by_others() {
    let (house, mc) = House::furnished().await;
    let door = house.first();
    let made = door.create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    assert_eq!(code.len(), 13);
    assert_eq!(made.text("join_url"), format!("/meet/{code}"));
    assert_eq!(
        (&made.body["max_participants"], &made.body["allow_guests"], made.text("display_name")),
        (&json!(100), &json!(true), "Monday")
    );

    let host = door.join(HOST, code).await;
    assert_eq!(host.status, 200, "{host:?}");
    assert_eq!((host.text("role"), host.text("meeting_name")), ("host", "Monday"));
    assert_eq!(host.body["expires_in"], 900);
    let claims: MeetingClaims = house.claims(&host);
    assert_eq!((claims.sub.as_str(), claims.role), (made.text("host_user_id"), Role::Host));
    assert_eq!((claims.meeting_id.as_str(), claims.participant_type), (id, ParticipantType::Member));
    assert!(claims.capabilities.contains(&"moderate".to_owned()), "{claims:?}");
    assert_eq!(
        host.body["mc_assignment"],
        json!({
            "mc_id": "mc-1",
            "webtransport_endpoint": "https://127.0.0.1:4433/wt/mc-1",
            "grpc_endpoint": "",
            "certificate_hashes": ["BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="],
        })
    );

    let other = door.join(OTHER, code).await;
    let claims: MeetingClaims = house.claims(&other);
    assert_eq!((other.text("role"), claims.role), ("participant", Role::Participant));
    assert_ne!(claims.sub, made.text("host_user_id"));
    assert!(!claims.capabilities.contains(&"moderate".to_owned()), "{claims:?}");
    assert_eq!(mc.asked(), 1);

    let asked = mc.desk.asked.lock().remove(0);
    assert_eq!((asked.meeting_id.as_str(), asked.requesting_gc_id.as_str()), (id, "gc-0"));
    let settings = asked.settings.unwrap();
    assert_eq!((settings.max_participants, settings.allow_guests), (100, true));
    assert_eq!(settings.host_user_id, made.text("host_user_id"));
    let zones: Vec<&str> = asked.mh_assignments.iter().map(|mh| mh.zone.as_str()).collect();
    assert_eq!((asked.mh_assignments.len(), asked.degraded_placement), (2, false));
    assert_ne!(zones[0], zones[1]);
    assert_eq!(asked.mh_assignments.iter().map(|mh| mh.role).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(asked.mh_assignments[0].certificate_sha256, [vec![7_u8; 32]]);
}

#[tokio::test]
async fn what_cannot_be_meant_is_said_and_makes_nothing() {
    let (house, _mc) = House::furnished().await;
    let door = house.first();
    let long = "x".repeat(256);
    let table = [
        json!({}),
        json!({"display_name": ""}),
        json!({"display_name": "  "}),
        json!({"display_name": long}),
        json!({"display_name": "a\u{7}b"}),
        json!({"display_name": 7}),
        json!({"display_name": "a", "max_participants": 1}),
        json!({"display_name": "a", "max_participants": 10_001}),
        json!({"display_name": "a", "max_participants": -5}),
        json!({"display_name": "a", "allow_guests": "yes"}),
        json!({"display_name": "a", "colour": "red"}),
        json!(["a"]),
    ];
    for wish in table {
        let refused = answer(door.request(HOST, Method::POST, "/meetings").json(&wish)).await;
        assert_eq!(refused.code(), (400, "BAD_REQUEST"), "{wish}");
    }
    let text = door.request(HOST, Method::POST, "/meetings").body("display_name=a");
    assert_eq!(answer(text).await.status, 415);
    let broken = door.request(HOST, Method::POST, "/meetings").header("content-type", "application/json");
    assert_eq!(answer(broken.body("{")).await.code(), (400, "BAD_REQUEST"));
    let large = json!({"display_name": "x".repeat(17 * 1024)});
    assert_eq!(answer(door.request(HOST, Method::POST, "/meetings").json(&large)).await.status, 413);
    let query = lease::Query::new(lease::Prefix::new("gc:").unwrap());
    assert!(house.store.scan(&query).await.unwrap().items.is_empty());
    for good in
        [json!({"display_name": "x".repeat(255), "max_participants": 2}), json!({"display_name": "é"})]
    {
        let made = answer(door.request(HOST, Method::POST, "/meetings").json(&good)).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
}

#[tokio::test]
async fn a_code_that_nobody_was_given_leads_nowhere() {
    let (house, _mc) = House::furnished().await;
    let door = house.first();
    let made = door.create().await;
    let id = made.text("meeting_id");
    for code in ["aaaaaaaaaaaaa", "short", "AAAAAAAAAAAAA", "..%2F..%2Fmeeting", "a%20b", id] {
        assert_eq!(door.join(HOST, code).await.code(), (404, "NOT_FOUND"), "{code}");
        assert_eq!(door.guest(code, "Ada", None).await.code(), (404, "NOT_FOUND"), "{code}");
    }
    for id in ["nobody", "00000000-0000-7000-8000-000000000000", "a%3Ab"] {
        assert_eq!(door.change(HOST, id, json!({})).await.code(), (404, "NOT_FOUND"), "{id}");
    }
}

#[tokio::test]
async fn only_the_host_changes_a_meeting() {
    let (house, mc) = House::furnished().await;
    let door = house.first();
    let made = door.create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    assert_eq!(door.change(OTHER, id, json!({"display_name": "Mine"})).await.code(), (403, "FORBIDDEN"));
    for bad in [json!({"max_participants": 0}), json!({"display_name": ""}), json!({"host_user_id": "u_1"})] {
        assert_eq!(door.change(HOST, id, bad.clone()).await.code(), (400, "BAD_REQUEST"), "{bad}");
    }
    let same = door.change(HOST, id, json!({})).await;
    assert_eq!(same.body, made.body);
    let change = json!({"display_name": "Tuesday", "max_participants": 7, "allow_guests": false});
    let changed = door.change(HOST, id, change).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    assert_eq!((changed.text("display_name"), &changed.body["max_participants"]), ("Tuesday", &json!(7)));
    assert_eq!(door.join(OTHER, code).await.text("meeting_name"), "Tuesday");
    let settings = mc.desk.asked.lock()[0].settings.clone().unwrap();
    assert_eq!((settings.max_participants, settings.allow_guests), (7, false));
}

#[tokio::test]
async fn the_trace_of_a_join_goes_on_to_the_controller() {
    let (house, mc) = House::furnished().await;
    let door = house.first();
    let made = door.create().await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let path = format!("/meetings/{}", made.text("meeting_code"));
    let joined = answer(door.request(HOST, Method::GET, &path).header("traceparent", trace)).await;
    assert_eq!(joined.status, 200, "{joined:?}");
    assert_eq!(*mc.desk.traces.lock(), [trace]);
}

#[tokio::test]
async fn what_happens_is_counted() {
    service::telemetry::metrics_text();
    let (house, mc) = House::furnished().await;
    let second = house.mc("mc-2").await;
    let door = house.first();
    let made = door.create().await;
    let code = made.text("meeting_code");
    let rejection = Verdict::Reject(RejectionReason::AtCapacity);
    mc.says(rejection.clone());
    second.says(rejection);
    assert_eq!(door.join(HOST, code).await.status, 503);
    mc.says(Verdict::Take);
    second.says(Verdict::Take);
    assert_eq!(door.join(HOST, code).await.status, 200);
    assert_eq!(door.join(HOST, "aaaaaaaaaaaaa").await.status, 404);
    assert_eq!(door.guest(code, "Ada", None).await.status, 200);
    let metrics = service::telemetry::metrics_text();
    for line in [
        "gc_meetings_created_total 1",
        "gc_joins_total{status=\"success\"} 1",
        "gc_joins_total{status=\"SERVICE_UNAVAILABLE\"} 1",
        "gc_joins_total{status=\"NOT_FOUND\"} 1",
        "gc_guest_tokens_total{status=\"success\"} 1",
        "gc_assignments_total{result=\"rejected\"} 1",
        "gc_assignments_total{result=\"accepted\"} 1",
        "gc_assignment_rejections_total{reason=\"at_capacity\"} 2",
        "gc_registered_nodes{kind=\"mc\"} 2",
        "gc_registered_nodes{kind=\"mh\"} 2",
        "mc_jwt_validations_total{result=\"success\",token_type=\"service\",failure_reason=\"none\"} 3",
    ] {
        assert!(metrics.contains(&format!("{line}\n")), "{line} is not in\n{metrics}");
    }
}

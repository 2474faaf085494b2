//! Meetings over REST.

use reqwest::Method;
use serde_json::json;
use tenure_meet_wire::internal::RejectionReason;
use tenure_meet_wire::jwt::{MeetingClaims, ParticipantType, Role};

use crate::nodes::Verdict;
use crate::test_gc::{HOST, OTHER, TestGc, answer};

#[tokio::test]
async fn a_meeting_is_created_and_joined_by_its_host_and_others() {
    let (test_gc, mc) = TestGc::furnished().await;
    let server = test_gc.first();
    let made = server.create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    assert_eq!(code.len(), 13);
    assert_eq!(made.text("join_url"), format!("/meet/{code}"));
    assert_eq!(
        (&made.body["max_participants"], &made.body["allow_guests"], made.text("display_name")),
        (&json!(100), &json!(true), "Monday")
    );

    let host = server.join(HOST, code).await;
    assert_eq!(host.status, 200, "{host:?}");
    assert_eq!((host.text("role"), host.text("meeting_name")), ("host", "Monday"));
    assert_eq!(host.body["expires_in"], 900);
    let claims: MeetingClaims = test_gc.claims(&host);
    assert_eq!((claims.sub.as_str(), claims.role), (made.text("host_user_id"), Role::Host));
    assert_eq!((claims.meeting_id.as_str(), claims.participant_type), (id, ParticipantType::Member));
    assert!(claims.capabilities.contains(&"moderate".to_owned()), "{claims:?}");
    let generation = &host.body["mc_assignment"]["generation"];
    assert!(generation.as_str().is_some_and(|text| text.parse::<u64>().is_ok()), "{generation}");
    assert_eq!(
        host.body["mc_assignment"],
        json!({
            "mc_id": "mc-1",
            "generation": generation,
            "webtransport_endpoint": "https://127.0.0.1:4433/wt/mc-1",
            "grpc_endpoint": "",
            "certificate_hashes": ["BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="],
        })
    );

    let other = server.join(OTHER, code).await;
    let claims: MeetingClaims = test_gc.claims(&other);
    assert_eq!((other.text("role"), claims.role), ("participant", Role::Participant));
    assert_ne!(claims.sub, made.text("host_user_id"));
    assert!(!claims.capabilities.contains(&"moderate".to_owned()), "{claims:?}");
    assert_eq!(mc.asked(), 1);

    let asked = mc.fake.asked.lock().remove(0);
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
async fn an_invalid_request_is_rejected_and_creates_nothing() {
    let (test_gc, _mc) = TestGc::furnished().await;
    let server = test_gc.first();
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
    for request_body in table {
        let refused = answer(server.request(HOST, Method::POST, "/meetings").json(&request_body)).await;
        assert_eq!(refused.code(), (400, "BAD_REQUEST"), "{request_body}");
    }
    let text = server.request(HOST, Method::POST, "/meetings").body("display_name=a");
    assert_eq!(answer(text).await.status, 415);
    let broken = server.request(HOST, Method::POST, "/meetings").header("content-type", "application/json");
    assert_eq!(answer(broken.body("{")).await.code(), (400, "BAD_REQUEST"));
    let large = json!({"display_name": "x".repeat(17 * 1024)});
    assert_eq!(answer(server.request(HOST, Method::POST, "/meetings").json(&large)).await.status, 413);
    let query = tenure_lease::Query::new(tenure_lease::Prefix::new("gc:").unwrap());
    assert!(test_gc.store.scan(&query).await.unwrap().items.is_empty());
    for good in
        [json!({"display_name": "x".repeat(255), "max_participants": 2}), json!({"display_name": "é"})]
    {
        let made = answer(server.request(HOST, Method::POST, "/meetings").json(&good)).await;
        assert_eq!(made.status, 201, "{made:?}");
    }
}

#[tokio::test]
async fn an_unknown_code_is_not_found() {
    let (test_gc, _mc) = TestGc::furnished().await;
    let server = test_gc.first();
    let made = server.create().await;
    let id = made.text("meeting_id");
    for code in ["aaaaaaaaaaaaa", "short", "AAAAAAAAAAAAA", "..%2F..%2Fmeeting", "a%20b", id] {
        assert_eq!(server.join(HOST, code).await.code(), (404, "NOT_FOUND"), "{code}");
        assert_eq!(server.guest(code, "Ada", None).await.code(), (404, "NOT_FOUND"), "{code}");
    }
    for id in ["unknown", "00000000-0000-7000-8000-000000000000", "a%3Ab"] {
        assert_eq!(server.change(HOST, id, json!({})).await.code(), (404, "NOT_FOUND"), "{id}");
    }
}

#[tokio::test]
async fn only_the_host_may_change_a_meeting() {
    let (test_gc, mc) = TestGc::furnished().await;
    let server = test_gc.first();
    let made = server.create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    assert_eq!(server.change(OTHER, id, json!({"display_name": "Mine"})).await.code(), (403, "FORBIDDEN"));
    for bad in [json!({"max_participants": 0}), json!({"display_name": ""}), json!({"host_user_id": "u_1"})] {
        assert_eq!(server.change(HOST, id, bad.clone()).await.code(), (400, "BAD_REQUEST"), "{bad}");
    }
    let same = server.change(HOST, id, json!({})).await;
    assert_eq!(same.body, made.body);
    let change = json!({"display_name": "Tuesday", "max_participants": 7, "allow_guests": false});
    let changed = server.change(HOST, id, change).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    assert_eq!((changed.text("display_name"), &changed.body["max_participants"]), ("Tuesday", &json!(7)));
    assert_eq!(server.join(OTHER, code).await.text("meeting_name"), "Tuesday");
    let settings = mc.fake.asked.lock()[0].settings.clone().unwrap();
    assert_eq!((settings.max_participants, settings.allow_guests), (7, false));
}

#[tokio::test]
async fn the_waiting_room_is_a_setting_that_joins_show_and_controllers_receive() {
    let (test_gc, mc) = TestGc::furnished().await;
    let server = test_gc.first();
    let made = server.create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    assert_eq!(made.body["waiting_room"], false);
    let changed = server.change(HOST, id, json!({"waiting_room": true})).await;
    assert_eq!((changed.status.as_u16(), &changed.body["waiting_room"]), (200, &json!(true)));
    assert_eq!(server.join(OTHER, code).await.body["waiting_room"], true);
    assert_eq!(server.join(HOST, code).await.body["waiting_room"], false, "the host does not wait");
    assert!(mc.fake.asked.lock()[0].settings.clone().unwrap().waiting_room);
    let new = json!({"display_name": "Private", "waiting_room": true});
    let request = server.request(HOST, Method::POST, "/meetings").json(&new);
    let made = answer(request).await;
    assert_eq!((made.status.as_u16(), &made.body["waiting_room"]), (201, &json!(true)));
}

#[tokio::test]
async fn the_trace_of_a_join_propagates_to_the_controller() {
    let (test_gc, mc) = TestGc::furnished().await;
    let server = test_gc.first();
    let made = server.create().await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let path = format!("/meetings/{}", made.text("meeting_code"));
    let joined = answer(server.request(HOST, Method::GET, &path).header("traceparent", trace)).await;
    assert_eq!(joined.status, 200, "{joined:?}");
    assert_eq!(*mc.fake.traces.lock(), [trace]);
}

#[tokio::test]
async fn joins_guests_and_assignments_are_counted() {
    tenure_service::telemetry::metrics_text();
    let (test_gc, mc) = TestGc::furnished().await;
    let second = test_gc.mc("mc-2").await;
    let server = test_gc.first();
    let made = server.create().await;
    let code = made.text("meeting_code");
    let rejection = Verdict::Reject(RejectionReason::AtCapacity);
    mc.says(rejection.clone());
    second.says(rejection);
    assert_eq!(server.join(HOST, code).await.status, 503);
    mc.says(Verdict::Take);
    second.says(Verdict::Take);
    assert_eq!(server.join(HOST, code).await.status, 200);
    assert_eq!(server.join(HOST, "aaaaaaaaaaaaa").await.status, 404);
    assert_eq!(server.guest(code, "Ada", None).await.status, 200);
    let metrics = tenure_service::telemetry::metrics_text();
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

#[tokio::test]
async fn a_meeting_that_its_host_ended_takes_only_the_host() {
    let (test_gc, _mc) = TestGc::furnished().await;
    let server = test_gc.first();
    let made = server.create().await;
    let (id, code) = (made.text("meeting_id"), made.text("meeting_code"));
    let guest = server.guest(code, "Ada", None).await;
    let key = tenure_lease::Key::new(format!("meeting:{id}:ended")).unwrap();
    // As its controller writes it.
    let put = tenure_lease::Op::Put { key: key.clone(), value: std::sync::Arc::from([]), ttl: None };
    test_gc.store.commit(&[put]).await.unwrap();
    for token in [OTHER, guest.text("token")] {
        assert_eq!(server.join(token, code).await.code(), (409, "MEETING_ENDED"));
    }
    assert_eq!(server.join(HOST, code).await.status, 200, "the host opens it again");
    test_gc.store.commit(&[tenure_lease::Op::Delete { key }]).await.unwrap();
    assert_eq!(server.join(OTHER, code).await.status, 200);
}

//! Nodes register, report their load, and leave.

use tenure_meet_rpc::Channel;
use tenure_meet_rpc::Kind;
use tenure_meet_wire::internal::global_controller_service_client::GlobalControllerServiceClient;
use tenure_meet_wire::internal::media_handler_registry_service_client::MediaHandlerRegistryServiceClient;
use tenure_meet_wire::internal::{
    ComprehensiveHeartbeatRequest, ControllerCapacity, FastHeartbeatRequest, HealthStatus, McDrained,
    McDraining, McOverloaded, MhLoadReport, NotifyMeetingEndedRequest, RegisterMcRequest, RegisterMhRequest,
    RequestMhReplacementRequest,
};
use tonic::Code;

use crate::nodes::hold;
use crate::test_gc::{HOST, TestGc};

fn controllers(test_gc: &TestGc) -> GlobalControllerServiceClient<Channel> {
    GlobalControllerServiceClient::new(test_gc.speaking("mc").to("inproc:gc").unwrap())
}

fn handlers(test_gc: &TestGc) -> MediaHandlerRegistryServiceClient<Channel> {
    MediaHandlerRegistryServiceClient::new(test_gc.speaking("mh").to("inproc:gc").unwrap())
}

fn beat(id: &str, meetings: u32, health: HealthStatus) -> FastHeartbeatRequest {
    let capacity = ControllerCapacity {
        max_meetings: 10,
        current_meetings: meetings,
        max_participants: 100,
        current_participants: 0,
    };
    FastHeartbeatRequest { controller_id: id.to_owned(), capacity: Some(capacity), health: health.into() }
}

#[tokio::test]
async fn heartbeats_need_a_lease_and_a_registration() {
    let test_gc = TestGc::new().await;
    let mut client = controllers(&test_gc);
    let register = RegisterMcRequest { id: "mc-1".to_owned(), ..RegisterMcRequest::default() };
    let refused = client.register_mc(register.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound, "no lease: {refused}");
    let mut mc = test_gc.mc("mc-1").await;
    let unknown = client.fast_heartbeat(beat("mc-1", 0, HealthStatus::Healthy)).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound, "not registered: {unknown}");
    let answer = client.register_mc(register).await.unwrap().into_inner();
    assert!(answer.accepted);
    assert_eq!(answer.fast_heartbeat_interval_ms, 10_000);
    assert_eq!(answer.comprehensive_heartbeat_interval_ms, 30_000);
    let taken = client.fast_heartbeat(beat("mc-1", 0, HealthStatus::Healthy)).await.unwrap();
    assert!(taken.into_inner().acknowledged);
    let whole = ComprehensiveHeartbeatRequest {
        controller_id: "mc-1".to_owned(),
        health: HealthStatus::Healthy.into(),
        cpu_usage_percent: 12.5,
        ..ComprehensiveHeartbeatRequest::default()
    };
    assert!(client.comprehensive_heartbeat(whole).await.unwrap().into_inner().acknowledged);
    mc.leave().await;
    let gone = client.fast_heartbeat(beat("mc-1", 0, HealthStatus::Healthy)).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound, "the lease is gone: {gone}");
    for bad in ["", "a:b", "../x", &"m".repeat(65)] {
        let register = RegisterMcRequest { id: bad.to_owned(), ..RegisterMcRequest::default() };
        assert_eq!(client.register_mc(register).await.unwrap_err().code(), Code::InvalidArgument, "{bad}");
    }
}

#[tokio::test]
async fn a_handler_with_a_lease_registers_and_reports_its_load() {
    let test_gc = TestGc::new().await;
    let mut client = handlers(&test_gc);
    let register = RegisterMhRequest { handler_id: "mh-1".to_owned(), ..RegisterMhRequest::default() };
    assert_eq!(client.register_mh(register.clone()).await.unwrap_err().code(), Code::NotFound);
    let _lease = hold(&test_gc.store, Kind::Handler, "mh-1", "a").await;
    let report = MhLoadReport { mh_id: "mh-1".to_owned(), ..MhLoadReport::default() };
    assert_eq!(client.send_load_report(report.clone()).await.unwrap_err().code(), Code::NotFound);
    let answer = client.register_mh(register).await.unwrap().into_inner();
    assert!(answer.accepted);
    assert_eq!(answer.load_report_interval_ms, 2_000);
    client.send_load_report(report).await.unwrap();
}

#[tokio::test]
async fn each_kind_of_node_reaches_only_its_own_service() {
    let test_gc = TestGc::new().await;
    let line = test_gc.speaking("mh").to("inproc:gc").unwrap();
    let mut stranger = GlobalControllerServiceClient::new(line);
    let refused = stranger.register_mc(RegisterMcRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    // A global controller has no scope for its own service.
    let line = test_gc.speaking("gc").to("inproc:gc").unwrap();
    let mut stranger = GlobalControllerServiceClient::new(line);
    let refused = stranger.register_mc(RegisterMcRequest::default()).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::Unauthenticated, "Invalid token"));
}

#[tokio::test]
async fn full_unhealthy_and_draining_controllers_get_no_new_meetings() {
    let mut test_gc = TestGc::new().await;
    test_gc.handlers().await;
    let mut client = controllers(&test_gc);
    let mut mcs = Vec::new();
    for id in ["full", "sick", "draining", "good"] {
        mcs.push(test_gc.mc(id).await);
        let register = RegisterMcRequest { id: id.to_owned(), ..RegisterMcRequest::default() };
        client.register_mc(register).await.unwrap();
    }
    client.fast_heartbeat(beat("full", 10, HealthStatus::Healthy)).await.unwrap();
    client.fast_heartbeat(beat("sick", 0, HealthStatus::Unhealthy)).await.unwrap();
    client.fast_heartbeat(beat("good", 3, HealthStatus::Healthy)).await.unwrap();
    let draining = McDraining { mc_id: "draining".to_owned(), meeting_count: 2, ..McDraining::default() };
    assert!(client.notify_draining(draining).await.unwrap().into_inner().assignments.is_empty());
    for _ in 0..5 {
        let made = test_gc.first().create().await;
        let joined = test_gc.first().join(HOST, made.text("meeting_code")).await;
        assert_eq!(joined.body["mc_assignment"]["mc_id"], "good", "{joined:?}");
    }
    let drained = McDrained { mc_id: "draining".to_owned(), ..McDrained::default() };
    client.notify_drained(drained).await.unwrap();
    let overloaded = McOverloaded { mc_id: "full".to_owned(), ..McOverloaded::default() };
    assert!(client.notify_overloaded(overloaded).await.unwrap().into_inner().assignments.is_empty());
    let unknown = McOverloaded { mc_id: "unknown".to_owned(), ..McOverloaded::default() };
    assert_eq!(client.notify_overloaded(unknown).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn failed_handlers_are_replaced_by_others() {
    let (test_gc, _mc) = TestGc::furnished().await;
    let mut client = controllers(&test_gc);
    let made = test_gc.first().create().await;
    let failing = |failed: &[&str]| RequestMhReplacementRequest {
        meeting_id: made.text("meeting_id").to_owned(),
        failed_mh_ids: failed.iter().map(|id| (*id).to_owned()).collect(),
        ..RequestMhReplacementRequest::default()
    };
    let unowned = client.request_mh_replacement(failing(&["mh-1"])).await.unwrap_err();
    assert_eq!(unowned.code(), Code::FailedPrecondition);
    test_gc.first().join(HOST, made.text("meeting_code")).await;
    let answer = client.request_mh_replacement(failing(&["mh-1"])).await.unwrap().into_inner();
    let ids: Vec<&str> = answer.new_mhs.iter().map(|mh| mh.mh_id.as_str()).collect();
    assert_eq!(ids, ["mh-2"]);
    let none = client.request_mh_replacement(failing(&["mh-1", "mh-2"])).await.unwrap_err();
    assert_eq!(none.code(), Code::Unavailable);
    let kept = vec!["mh-2".to_owned()];
    let none = RequestMhReplacementRequest { kept_mh_ids: kept, ..failing(&["mh-1"]) };
    let none = client.request_mh_replacement(none).await.unwrap_err();
    assert_eq!(none.code(), Code::Unavailable, "a handler that stays is not offered again");
}

#[tokio::test]
async fn the_end_of_a_meeting_is_recorded_and_an_unknown_meeting_is_rejected() {
    let (test_gc, mc) = TestGc::furnished().await;
    let mut client = controllers(&test_gc);
    let made = test_gc.first().create().await;
    test_gc.first().join(HOST, made.text("meeting_code")).await;
    let ended = |id: &str| NotifyMeetingEndedRequest {
        meeting_id: id.to_owned(),
        ..NotifyMeetingEndedRequest::default()
    };
    client.notify_meeting_ended(ended(made.text("meeting_id"))).await.unwrap();
    mc.end_meetings().await;
    client.notify_meeting_ended(ended(made.text("meeting_id"))).await.unwrap();
    let unknown = client.notify_meeting_ended(ended("unknown")).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
}

//! Nodes come, say how loaded they are, and go.

use meet_rpc::Kind;
use meet_rpc::Line;
use meet_wire::internal::global_controller_service_client::GlobalControllerServiceClient;
use meet_wire::internal::media_handler_registry_service_client::MediaHandlerRegistryServiceClient;
use meet_wire::internal::{
    ComprehensiveHeartbeatRequest, ControllerCapacity, FastHeartbeatRequest, HealthStatus, McDrained,
    McDraining, McOverloaded, MhLoadReport, NotifyMeetingEndedRequest, RegisterMcRequest, RegisterMhRequest,
    RequestMhReplacementRequest,
};
use tonic::Code;

use crate::house::{HOST, House};
use crate::nodes::hold;

fn controllers(house: &House) -> GlobalControllerServiceClient<Line> {
    GlobalControllerServiceClient::new(house.speaking("mc").to("inproc:gc").unwrap())
}

fn handlers(house: &House) -> MediaHandlerRegistryServiceClient<Line> {
    MediaHandlerRegistryServiceClient::new(house.speaking("mh").to("inproc:gc").unwrap())
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
async fn a_controller_registers_with_its_lease_and_only_then_its_heartbeats_are_taken() {
    let house = House::new().await;
    let mut client = controllers(&house);
    let register = RegisterMcRequest { id: "mc-1".to_owned(), ..RegisterMcRequest::default() };
    let refused = client.register_mc(register.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound, "no lease: {refused}");
    let mut mc = house.mc("mc-1").await;
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
async fn a_handler_registers_with_its_lease_and_reports_its_load() {
    let house = House::new().await;
    let mut client = handlers(&house);
    let register = RegisterMhRequest { handler_id: "mh-1".to_owned(), ..RegisterMhRequest::default() };
    assert_eq!(client.register_mh(register.clone()).await.unwrap_err().code(), Code::NotFound);
    let _lease = hold(&house.store, Kind::Handler, "mh-1", "a").await;
    let report = MhLoadReport { mh_id: "mh-1".to_owned(), ..MhLoadReport::default() };
    assert_eq!(client.send_load_report(report.clone()).await.unwrap_err().code(), Code::NotFound);
    let answer = client.register_mh(register).await.unwrap().into_inner();
    assert!(answer.accepted);
    assert_eq!(answer.load_report_interval_ms, 2_000);
    client.send_load_report(report).await.unwrap();
}

#[tokio::test]
async fn each_kind_of_node_reaches_only_its_own_service() {
    let house = House::new().await;
    let line = house.speaking("mh").to("inproc:gc").unwrap();
    let mut stranger = GlobalControllerServiceClient::new(line);
    let refused = stranger.register_mc(RegisterMcRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    // A global controller has no scope for itself.
    let line = house.speaking("gc").to("inproc:gc").unwrap();
    let mut stranger = GlobalControllerServiceClient::new(line);
    let refused = stranger.register_mc(RegisterMcRequest::default()).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::Unauthenticated, "Invalid token"));
}

#[tokio::test]
async fn full_sick_and_draining_controllers_get_no_new_meetings() {
    let mut house = House::new().await;
    house.handlers().await;
    let mut client = controllers(&house);
    let mut mcs = Vec::new();
    for id in ["full", "sick", "draining", "good"] {
        mcs.push(house.mc(id).await);
        let register = RegisterMcRequest { id: id.to_owned(), ..RegisterMcRequest::default() };
        client.register_mc(register).await.unwrap();
    }
    client.fast_heartbeat(beat("full", 10, HealthStatus::Healthy)).await.unwrap();
    client.fast_heartbeat(beat("sick", 0, HealthStatus::Unhealthy)).await.unwrap();
    client.fast_heartbeat(beat("good", 3, HealthStatus::Healthy)).await.unwrap();
    let draining = McDraining { mc_id: "draining".to_owned(), meeting_count: 2, ..McDraining::default() };
    assert!(client.notify_draining(draining).await.unwrap().into_inner().assignments.is_empty());
    for _ in 0..5 {
        let made = house.first().create().await;
        let joined = house.first().join(HOST, made.text("meeting_code")).await;
        assert_eq!(joined.body["mc_assignment"]["mc_id"], "good", "{joined:?}");
    }
    let drained = McDrained { mc_id: "draining".to_owned(), ..McDrained::default() };
    client.notify_drained(drained).await.unwrap();
    let overloaded = McOverloaded { mc_id: "full".to_owned(), ..McOverloaded::default() };
    assert!(client.notify_overloaded(overloaded).await.unwrap().into_inner().assignments.is_empty());
    let nobody = McOverloaded { mc_id: "nobody".to_owned(), ..McOverloaded::default() };
    assert_eq!(client.notify_overloaded(nobody).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn handlers_that_failed_are_replaced_by_others() {
    let (house, _mc) = House::furnished().await;
    let mut client = controllers(&house);
    let made = house.first().create().await;
    let failing = |failed: &[&str]| RequestMhReplacementRequest {
        meeting_id: made.text("meeting_id").to_owned(),
        failed_mh_ids: failed.iter().map(|id| (*id).to_owned()).collect(),
        ..RequestMhReplacementRequest::default()
    };
    let unowned = client.request_mh_replacement(failing(&["mh-1"])).await.unwrap_err();
    assert_eq!(unowned.code(), Code::FailedPrecondition);
    house.first().join(HOST, made.text("meeting_code")).await;
    let answer = client.request_mh_replacement(failing(&["mh-1"])).await.unwrap().into_inner();
    let ids: Vec<&str> = answer.new_mhs.iter().map(|mh| mh.mh_id.as_str()).collect();
    assert_eq!(ids, ["mh-2"]);
    let none = client.request_mh_replacement(failing(&["mh-1", "mh-2"])).await.unwrap_err();
    assert_eq!(none.code(), Code::Unavailable);
}

#[tokio::test]
async fn the_end_of_a_meeting_is_noted_and_of_an_unknown_one_refused() {
    let (house, mc) = House::furnished().await;
    let mut client = controllers(&house);
    let made = house.first().create().await;
    house.first().join(HOST, made.text("meeting_code")).await;
    let ended = |id: &str| NotifyMeetingEndedRequest {
        meeting_id: id.to_owned(),
        ..NotifyMeetingEndedRequest::default()
    };
    client.notify_meeting_ended(ended(made.text("meeting_id"))).await.unwrap();
    mc.end_meetings().await;
    client.notify_meeting_ended(ended(made.text("meeting_id"))).await.unwrap();
    let unknown = client.notify_meeting_ended(ended("nobody")).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
}

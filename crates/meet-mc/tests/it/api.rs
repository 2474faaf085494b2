//! The gRPC services of a controller, and the bounds of its acceptor.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Clock, Store};
use tenure_meet_mc::actor::ScriptedHandlers;
use tenure_meet_mc::{AcceptLimits, HandlerLoads, PATH, RateLimit, SeatTimeouts, SessionAcceptor};
use tenure_meet_rpc::{Channel, ChannelPool};
use tenure_meet_wire::internal::media_coordination_service_client::MediaCoordinationServiceClient;
use tenure_meet_wire::internal::meeting_controller_service_client::MeetingControllerServiceClient;
use tenure_meet_wire::internal::{
    AssignMeetingRequest, AssignMeetingResponse, CancelDrainRequest, HealthStatus, MeetingSettings,
    MhAssignment, MhLoadNotification, MigrateMeetingsRequest, ParticipantMediaConnected, ProbePeerRequest,
    ProbeRequest, RejectionReason, RequestDrainRequest,
};
use tenure_meet_wire::jwt::{Role, ServiceType};
use tenure_meet_wire::signaling::client_message::Payload as ClientPayload;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{ChatRequest, ErrorCode};
use tenure_meet_wire::transport::{Connect, Paths, memory};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::actors::store;
use crate::harness::{Harness, keyring};
use crate::peers::tokens;
use tenure_testkit_meet::{FaultyStore, WriteFault};

fn offer(channels: &ChannelPool, harness: &Harness, name: &str) -> HandlerLoads {
    let grace = Duration::from_secs(30);
    let (timeouts, loads) = (SeatTimeouts { grace, binding_ttl: grace }, HandlerLoads::default());
    channels.offer(
        name,
        tenure_meet_mc::grpc(&harness.controller, keyring(&harness.store), timeouts, loads.clone()),
    );
    loads
}

fn lines(store: &Arc<dyn Store>, service_type: ServiceType) -> ChannelPool {
    ChannelPool::new(tokens(store, service_type), store.clock(), None)
}

type Mc = MeetingControllerServiceClient<Channel>;

fn gc_to(store: &Arc<dyn Store>, harness: &Harness, name: &str) -> Mc {
    let channels = lines(store, ServiceType::GlobalController);
    offer(&channels, harness, name);
    Mc::new(channels.to(&format!("inproc:{name}")).unwrap())
}

fn request(meeting: &str, handlers: &[(&str, &str)]) -> AssignMeetingRequest {
    let handler = |(id, endpoint): &(&str, &str)| MhAssignment {
        mh_id: (*id).to_owned(),
        grpc_endpoint: (*endpoint).to_owned(),
        webtransport_endpoint: "https://127.0.0.1:1/wt/mh".to_owned(),
        ..MhAssignment::default()
    };
    AssignMeetingRequest {
        meeting_id: meeting.to_owned(),
        mh_assignments: handlers.iter().map(handler).collect(),
        requesting_gc_id: "gc-1".to_owned(),
        settings: Some(MeetingSettings { max_participants: 5, allow_guests: true, ..Default::default() }),
        ..AssignMeetingRequest::default()
    }
}

async fn assign(mc: &mut Mc, meeting: &str, handlers: &[(&str, &str)]) -> AssignMeetingResponse {
    mc.assign_meeting(request(meeting, handlers)).await.unwrap().into_inner()
}

const ONE: &[(&str, &str)] = &[("mh-1", "inproc:mh-1")];

#[tokio::test(start_paused = true)]
async fn an_assignment_without_handlers_or_endpoints_is_refused() {
    let (_clock, store) = store();
    let harness = Harness::open(&store, "mc-1");
    let mut gc = gc_to(&store, &harness, "mc-1");
    for (meeting, handlers) in [("abc", &[][..]), ("abc", &[("mh-1", "")]), ("", ONE), ("a b", ONE)] {
        let answer = assign(&mut gc, meeting, handlers).await;
        assert!(!answer.accepted);
        assert_eq!(answer.rejection_reason(), RejectionReason::InvalidRequest);
        assert_eq!(answer.capacity.unwrap().current_meetings, 0);
    }
    let answer = assign(&mut gc, "abc", ONE).await;
    assert!(answer.accepted && answer.generation > 0);
    let capacity = answer.capacity.unwrap();
    assert_eq!((capacity.current_meetings, capacity.max_meetings), (1, 100));
}

#[tokio::test(start_paused = true)]
async fn a_full_a_draining_and_a_controller_without_the_lease_reject_with_their_reason() {
    let (_clock, store) = store();
    let (full, other) = (
        Harness::with(&store, "mc-1", Arc::new(ScriptedHandlers::ACCEPTING), 1),
        Harness::open(&store, "mc-2"),
    );
    let (mut one, mut two) = (gc_to(&store, &full, "mc-1"), gc_to(&store, &other, "mc-2"));
    assert!(assign(&mut one, "abc", ONE).await.accepted);
    assert!(assign(&mut one, "abc", ONE).await.accepted, "again is the same");
    assert_eq!(assign(&mut one, "def", ONE).await.rejection_reason(), RejectionReason::AtCapacity);
    let owned = assign(&mut two, "abc", ONE).await;
    assert_eq!(owned.rejection_reason(), RejectionReason::AlreadyOwned);
    assert_eq!(owned.owner_mc_id, "mc-1");
    other.controller.drain();
    assert_eq!(assign(&mut two, "def", ONE).await.rejection_reason(), RejectionReason::Draining);
}

#[tokio::test(start_paused = true)]
async fn without_its_store_a_controller_is_unhealthy_and_rejects_meetings() {
    let (_clock, inner) = store();
    let faulty = FaultyStore::new(inner);
    let store: Arc<dyn Store> = faulty.clone();
    let harness = Harness::open(&store, "mc-1");
    let mut gc = gc_to(&store, &harness, "mc-1");
    faulty.fail_all_writes(Some(WriteFault::Unavailable));
    assert_eq!(assign(&mut gc, "abc", ONE).await.rejection_reason(), RejectionReason::Unhealthy);
    faulty.fail_all_writes(None);
    assert!(assign(&mut gc, "abc", ONE).await.accepted);
}

#[tokio::test(start_paused = true)]
async fn a_controller_takes_a_meeting_from_the_dead_generation_that_is_named_and_no_other() {
    let (_clock, store) = store();
    let harnesses = ["mc-1", "mc-2", "mc-3"].map(|id| Harness::open(&store, id));
    let [mut one, mut two, mut three] =
        [0, 1, 2].map(|n| gc_to(&store, &harnesses[n], &format!("mc-{}", n + 1)));
    let instead_of = |generation| AssignMeetingRequest { instead_of: generation, ..request("abc", ONE) };
    // The lease is free: the claim is a plain one.
    let first = one.assign_meeting(instead_of(7)).await.unwrap().into_inner();
    assert!(first.accepted && first.generation > 0);
    let second = two.assign_meeting(instead_of(first.generation)).await.unwrap().into_inner();
    assert!(second.accepted && second.generation > first.generation, "without waiting for the expiry");
    let late = three.assign_meeting(instead_of(first.generation)).await.unwrap().into_inner();
    assert_eq!((late.accepted, late.rejection_reason()), (false, RejectionReason::AlreadyOwned));
    assert_eq!(late.owner_mc_id, "mc-2", "the second decision learns the owner");
}

#[tokio::test(start_paused = true)]
async fn a_controller_probes_another_one_for_the_global_controller() {
    let (_clock, store) = store();
    let own = crate::peers::peers(&store, "mc-2");
    let (one, two) = (Harness::open(&store, "mc-1"), Harness::at_home(&store, "mc-2", own.clone()));
    offer(&own.channels, &one, "mc-1");
    let (mut owner, mut peer) = (gc_to(&store, &one, "mc-1"), gc_to(&store, &two, "mc-2"));
    let generation = assign(&mut owner, "abc", ONE).await.generation;
    let ask = |endpoint: &str| ProbePeerRequest {
        mc_id: "mc-1".to_owned(),
        grpc_endpoint: endpoint.to_owned(),
        meeting_id: "abc".to_owned(),
    };
    let found = peer.probe_peer(ask("inproc:mc-1")).await.unwrap().into_inner();
    let probe = found.probe.unwrap();
    assert!(found.reached && probe.mc_id == "mc-1" && probe.generation == generation);
    let silent = peer.probe_peer(ask("inproc:unknown")).await.unwrap().into_inner();
    assert_eq!((silent.reached, silent.probe), (false, None));
}

#[tokio::test(start_paused = true)]
async fn a_probe_reports_id_health_and_ownership() {
    let (_clock, store) = store();
    let harness = Harness::open(&store, "mc-1");
    let mut gc = gc_to(&store, &harness, "mc-1");
    let generation = assign(&mut gc, "abc", ONE).await.generation;
    let probe = |meeting: &str| ProbeRequest { meeting_id: meeting.to_owned() };
    let answer = gc.probe(probe("abc")).await.unwrap().into_inner();
    assert!(answer.owns_meeting && answer.mc_id == "mc-1");
    assert_eq!(answer.generation, generation);
    assert!(!answer.boot_id.is_empty() && answer.boot_id == harness.controller.boot_id());
    assert_ne!(answer.boot_id, Harness::open(&store, "mc-1").controller.boot_id(), "one for each life");
    assert_eq!(answer.health(), HealthStatus::Healthy);
    harness.controller.drain();
    let answer = gc.probe(probe("def")).await.unwrap().into_inner();
    assert_eq!((answer.owns_meeting, answer.health()), (false, HealthStatus::Draining));
    let moved = gc.migrate_meetings(MigrateMeetingsRequest::default()).await.unwrap();
    assert_eq!(moved.into_inner().accepted, 0);
}

#[tokio::test(start_paused = true)]
async fn gc_starts_a_drain_and_cancels_it_while_a_meeting_is_left() {
    let (_clock, store) = store();
    let harness = Harness::open(&store, "mc-1");
    let mut gc = gc_to(&store, &harness, "mc-1");
    assign(&mut gc, "abc", ONE).await;
    let drain = |id: &str| RequestDrainRequest { mc_id: id.to_owned(), ..Default::default() };
    let cancel = || CancelDrainRequest { mc_id: "mc-1".to_owned() };
    assert_eq!(gc.request_drain(drain("mc-2")).await.unwrap_err().code(), tonic::Code::NotFound);
    assert!(!gc.cancel_drain(cancel()).await.unwrap().into_inner().cancelled, "there is no drain");
    assert!(gc.request_drain(drain("mc-1")).await.unwrap().into_inner().accepted);
    assert!(!gc.request_drain(drain("mc-1")).await.unwrap().into_inner().accepted, "one at a time");
    assert!(gc.cancel_drain(cancel()).await.unwrap().into_inner().cancelled);
}

#[tokio::test(start_paused = true)]
async fn only_gc_assigns_and_only_handlers_notify() {
    let (_clock, store) = store();
    let harness = Harness::open(&store, "mc-1");
    let channels = lines(&store, ServiceType::MediaHandler);
    let loads = offer(&channels, &harness, "mc-1");
    let mut stranger = Mc::new(channels.to("inproc:mc-1").unwrap());
    let refused = stranger.assign_meeting(request("abc", ONE)).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied);
    assert_eq!(harness.controller.counts().await.meetings, 0);
    let mut mh = MediaCoordinationServiceClient::new(channels.to("inproc:mc-1").unwrap());
    harness.assign().await;
    let came =
        |meeting: &str| ParticipantMediaConnected { meeting_id: meeting.to_owned(), ..Default::default() };
    assert!(mh.notify_participant_connected(came("abc")).await.unwrap().into_inner().acknowledged);
    assert!(!mh.notify_participant_connected(came("def")).await.unwrap().into_inner().acknowledged);
    let load = MhLoadNotification { mh_id: "mh-1".to_owned(), capacity_percent: 70, ..Default::default() };
    mh.notify_load(load).await.unwrap();
    assert_eq!(loads.get("mh-1"), Some(70));
}

/// An acceptor in memory.
struct Hall {
    dialer: memory::Dialer,
    _tasks: JoinSet<()>,
}

fn hall(harness: &Harness, clock: Arc<dyn Clock>, room: AcceptLimits) -> Hall {
    let (listener, dialer) = memory::listener();
    let mut paths = Paths::new(Arc::new(listener));
    let way = Arc::new(paths.way(PATH));
    let front = SessionAcceptor::new(harness.controller.clone(), clock, room);
    let mut tasks = JoinSet::new();
    tasks.spawn(paths.run());
    tasks.spawn(front.serve(way, CancellationToken::new()));
    Hall { dialer, _tasks: tasks }
}

fn to(path: &str) -> Connect {
    Connect { path: path.to_owned(), ..Connect::default() }
}

#[tokio::test(start_paused = true)]
async fn at_the_connection_limit_the_next_session_is_refused_until_one_closes() {
    let metrics = tenure_service::telemetry::metrics_routes();
    let (clock, store) = store();
    let harness = Harness::open(&store, "mc-1");
    let hall =
        hall(&harness, clock.clone(), AcceptLimits { connections: 2, pending: 2, pending_per_address: 2 });
    let first = hall.dialer.dial(to(PATH)).await.unwrap();
    let _second = hall.dialer.dial(to(PATH)).await.unwrap();
    assert!(hall.dialer.dial(to(PATH)).await.is_err());
    let counted = "mc_webtransport_connections_total{status=\"rejected\"} 1";
    assert!(tenure_service::telemetry::metrics_text().contains(counted));
    first.wire().cut();
    let mut again = hall.dialer.dial(to(PATH)).await;
    while again.is_err() {
        clock.sleep_until(clock.now() + Duration::from_millis(10)).await;
        again = hall.dialer.dial(to(PATH)).await;
    }
    drop(metrics);
}

#[tokio::test(start_paused = true)]
async fn one_address_has_a_bound_of_sessions_that_have_not_joined() {
    let (clock, store) = store();
    let harness = Harness::open(&store, "mc-1");
    let room = AcceptLimits { connections: 9, pending: 9, pending_per_address: 1 };
    let hall = hall(&harness, clock.clone(), room);
    let first = hall.dialer.dial(to(PATH)).await.unwrap();
    assert!(hall.dialer.dial(to(PATH)).await.is_err());
    first.wire().cut();
    while hall.dialer.dial(to(PATH)).await.is_err() {
        clock.sleep_until(clock.now() + Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_paths_are_refused() {
    let (clock, store) = store();
    let harness = Harness::open(&store, "mc-1");
    let hall = hall(&harness, clock, AcceptLimits { connections: 2, pending: 2, pending_per_address: 2 });
    for path in ["/", "/wt/mh", "/wt/mc/", "/wt/mcx"] {
        assert!(hall.dialer.dial(to(path)).await.is_err(), "{path}");
    }
    assert!(hall.dialer.dial(to(PATH)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_draining_controller_accepts_clients_until_it_is_shut_down() {
    let (clock, store) = store();
    let harness = Harness::open(&store, "mc-1");
    let hall = hall(&harness, clock, AcceptLimits { connections: 2, pending: 2, pending_per_address: 2 });
    harness.controller.drain();
    assert!(hall.dialer.dial(to(PATH)).await.is_ok());
    harness.running.shut_down().await;
    assert!(hall.dialer.dial(to(PATH)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn too_many_joins_of_one_user_are_rate_limited() {
    let (clock, store) = store();
    let rate = RateLimit { burst: 3, per_second: 1 };
    let mut harness = Harness::rated(&store, "mc-1", rate, rate);
    harness.assign().await;
    for _ in 0..3 {
        harness.join("ada", Role::Host).await;
    }
    let mut fourth = harness.ask_to_join(harness.request("ada", Role::Host)).await;
    assert_eq!(fourth.error().await.0, ErrorCode::RateLimited);
    harness.join("bob", Role::Participant).await;
    clock.sleep_until(clock.now() + Duration::from_secs(1)).await;
    harness.join("ada", Role::Host).await;
}

#[tokio::test(start_paused = true)]
async fn chat_beyond_the_rate_limit_is_refused_and_the_seat_stays() {
    let (clock, store) = store();
    let rate = RateLimit { burst: 3, per_second: 1 };
    let mut harness = Harness::rated(&store, "mc-1", rate, rate);
    harness.assign().await;
    let (mut ada, _) = harness.join("ada", Role::Host).await;
    let chat = |text: &str| ClientPayload::ChatRequest(ChatRequest { text: text.to_owned() });
    for text in ["1", "2", "3", "4"] {
        ada.ask(chat(text)).await;
    }
    assert_eq!(ada.error().await.0, ErrorCode::RateLimited);
    clock.sleep_until(clock.now() + Duration::from_secs(1)).await;
    ada.ask(chat("5")).await;
    let heard = ada.until(|message| match &message.payload {
        Some(Payload::ChatMessage(chat)) if chat.text != "1" && chat.text != "2" && chat.text != "3" => {
            Some(chat.text.clone())
        }
        _ => None,
    });
    assert_eq!(heard.await, "5");
}

//! What GC and media handlers ask of a controller, and who is let in at its front.

use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Store};
use meet_mc::{Front, Loads, PATH, Rate, Room, Times};
use meet_rpc::{Line, Lines};
use meet_wire::internal::media_coordination_service_client::MediaCoordinationServiceClient;
use meet_wire::internal::meeting_controller_service_client::MeetingControllerServiceClient;
use meet_wire::internal::{
    AssignMeetingRequest, AssignMeetingResponse, HealthStatus, MeetingSettings, MhAssignment,
    MhLoadNotification, MigrateMeetingsRequest, ParticipantMediaConnected, ProbeRequest, RejectionReason,
    RequestDrainRequest,
};
use meet_wire::jwt::{Role, ServiceType};
use meet_wire::signaling::client_message::Payload as Ask;
use meet_wire::signaling::server_message::Payload;
use meet_wire::signaling::{ChatRequest, ErrorCode};
use meet_wire::transport::{Connect, Paths, memory};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::actors::store;
use crate::club::{Club, keyring};
use crate::mishap::{Fate, Mishap};
use crate::neighbours::tokens;

fn offer(lines: &Lines, club: &Club, name: &str) -> Loads {
    let grace = Duration::from_secs(30);
    let (times, loads) = (Times { grace, binding_ttl: grace }, Loads::default());
    lines.offer(name, meet_mc::grpc(&club.controller, keyring(&club.store), times, loads.clone()));
    loads
}

fn lines(store: &Arc<dyn Store>, service_type: ServiceType) -> Lines {
    Lines::new(tokens(store, service_type), store.clock(), None)
}

type Mc = MeetingControllerServiceClient<Line>;

fn gc_to(store: &Arc<dyn Store>, club: &Club, name: &str) -> Mc {
    let lines = lines(store, ServiceType::GlobalController);
    offer(&lines, club, name);
    Mc::new(lines.to(&format!("inproc:{name}")).unwrap())
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
        degraded_placement: false,
    }
}

async fn assign(mc: &mut Mc, meeting: &str, handlers: &[(&str, &str)]) -> AssignMeetingResponse {
    mc.assign_meeting(request(meeting, handlers)).await.unwrap().into_inner()
}

const ONE: &[(&str, &str)] = &[("mh-1", "inproc:mh-1")];

#[tokio::test(start_paused = true)]
async fn an_assignment_without_handlers_or_without_their_endpoint_is_refused_and_changes_nothing() {
    let (_clock, store) = store();
    let club = Club::open(&store, "mc-1");
    let mut gc = gc_to(&store, &club, "mc-1");
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
async fn a_full_controller_a_leaving_one_and_one_whose_meeting_is_elsewhere_say_so() {
    let (_clock, store) = store();
    let (full, other) =
        (Club::with(&store, "mc-1", Arc::new(crate::club::Obedient), 1), Club::open(&store, "mc-2"));
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
async fn without_its_store_a_controller_is_unhealthy_and_takes_nothing() {
    let (_clock, inner) = store();
    let mishap = Mishap::new(inner);
    let store: Arc<dyn Store> = mishap.clone();
    let club = Club::open(&store, "mc-1");
    let mut gc = gc_to(&store, &club, "mc-1");
    mishap.always(Some(Fate::Away));
    assert_eq!(assign(&mut gc, "abc", ONE).await.rejection_reason(), RejectionReason::Unhealthy);
    mishap.always(None);
    assert!(assign(&mut gc, "abc", ONE).await.accepted);
}

#[tokio::test(start_paused = true)]
async fn a_probe_says_who_it_is_how_it_is_and_whether_it_has_the_meeting() {
    let (_clock, store) = store();
    let club = Club::open(&store, "mc-1");
    let mut gc = gc_to(&store, &club, "mc-1");
    assign(&mut gc, "abc", ONE).await;
    let probe = |meeting: &str| ProbeRequest { meeting_id: meeting.to_owned() };
    let answer = gc.probe(probe("abc")).await.unwrap().into_inner();
    assert!(answer.owns_meeting && answer.mc_id == "mc-1");
    assert_eq!(answer.health(), HealthStatus::Healthy);
    club.controller.drain();
    let answer = gc.probe(probe("def")).await.unwrap().into_inner();
    assert_eq!((answer.owns_meeting, answer.health()), (false, HealthStatus::Draining));
    // What is not there yet says so.
    assert!(!gc.request_drain(RequestDrainRequest::default()).await.unwrap().into_inner().accepted);
    let moved = gc.migrate_meetings(MigrateMeetingsRequest::default()).await.unwrap();
    assert_eq!(moved.into_inner().accepted, 0);
}

#[tokio::test(start_paused = true)]
async fn only_gc_assigns_and_only_handlers_notify() {
    let (_clock, store) = store();
    let club = Club::open(&store, "mc-1");
    let lines = lines(&store, ServiceType::MediaHandler);
    let loads = offer(&lines, &club, "mc-1");
    let mut stranger = Mc::new(lines.to("inproc:mc-1").unwrap());
    let refused = stranger.assign_meeting(request("abc", ONE)).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied);
    assert_eq!(club.controller.counts().await.meetings, 0);
    let mut mh = MediaCoordinationServiceClient::new(lines.to("inproc:mc-1").unwrap());
    club.assign().await;
    let came =
        |meeting: &str| ParticipantMediaConnected { meeting_id: meeting.to_owned(), ..Default::default() };
    assert!(mh.notify_participant_connected(came("abc")).await.unwrap().into_inner().acknowledged);
    assert!(!mh.notify_participant_connected(came("def")).await.unwrap().into_inner().acknowledged);
    let load = MhLoadNotification { mh_id: "mh-1".to_owned(), capacity_percent: 70, ..Default::default() };
    mh.notify_load(load).await.unwrap();
    assert_eq!(loads.of("mh-1"), Some(70));
}

/// A front in memory.
struct Hall {
    dialer: memory::Dialer,
    _tasks: JoinSet<()>,
}

fn hall(club: &Club, clock: Arc<dyn Clock>, room: Room) -> Hall {
    let (listener, dialer) = memory::listener();
    let mut paths = Paths::new(Arc::new(listener));
    let way = Arc::new(paths.way(PATH));
    let front = Front::new(club.controller.clone(), clock, room);
    let mut tasks = JoinSet::new();
    tasks.spawn(paths.run());
    tasks.spawn(front.serve(way, CancellationToken::new()));
    Hall { dialer, _tasks: tasks }
}

fn to(path: &str) -> Connect {
    Connect { path: path.to_owned(), ..Connect::default() }
}

#[tokio::test(start_paused = true)]
async fn with_all_connections_taken_the_next_is_refused_and_counted_and_a_free_place_is_used_again() {
    let metrics = service::telemetry::metrics_routes();
    let (clock, store) = store();
    let club = Club::open(&store, "mc-1");
    let hall = hall(&club, clock.clone(), Room { connections: 2, waiting: 2 });
    let first = hall.dialer.dial(to(PATH)).await.unwrap();
    let _second = hall.dialer.dial(to(PATH)).await.unwrap();
    assert!(hall.dialer.dial(to(PATH)).await.is_err());
    let counted = "mc_webtransport_connections_total{status=\"rejected\"} 1";
    assert!(service::telemetry::metrics_text().contains(counted));
    first.wire().cut();
    let mut again = hall.dialer.dial(to(PATH)).await;
    while again.is_err() {
        clock.sleep_until(clock.now() + Duration::from_millis(10)).await;
        again = hall.dialer.dial(to(PATH)).await;
    }
    drop(metrics);
}

#[tokio::test(start_paused = true)]
async fn another_path_leads_nowhere() {
    let (clock, store) = store();
    let club = Club::open(&store, "mc-1");
    let hall = hall(&club, clock, Room { connections: 2, waiting: 2 });
    for path in ["/", "/wt/mh", "/wt/mc/", "/wt/mcx"] {
        assert!(hall.dialer.dial(to(path)).await.is_err(), "{path}");
    }
    assert!(hall.dialer.dial(to(PATH)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_leaves_takes_no_client() {
    let (clock, store) = store();
    let club = Club::open(&store, "mc-1");
    let hall = hall(&club, clock, Room { connections: 2, waiting: 2 });
    club.controller.drain();
    assert!(hall.dialer.dial(to(PATH)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn who_joins_too_often_is_told_to_wait_and_others_are_not() {
    let (clock, store) = store();
    let rate = Rate { burst: 3, per_second: 1 };
    let mut club = Club::rated(&store, "mc-1", rate, rate);
    club.assign().await;
    for _ in 0..3 {
        club.join("ada", Role::Host).await;
    }
    let mut fourth = club.ask_to_join(club.request("ada", Role::Host)).await;
    assert_eq!(fourth.error().await.0, ErrorCode::RateLimited);
    club.join("bob", Role::Participant).await;
    clock.sleep_until(clock.now() + Duration::from_secs(1)).await;
    club.join("ada", Role::Host).await;
}

#[tokio::test(start_paused = true)]
async fn a_seat_that_says_too_much_is_told_to_wait_and_stays() {
    let (clock, store) = store();
    let rate = Rate { burst: 3, per_second: 1 };
    let mut club = Club::rated(&store, "mc-1", rate, rate);
    club.assign().await;
    let (mut ada, _) = club.join("ada", Role::Host).await;
    let chat = |text: &str| Ask::ChatRequest(ChatRequest { text: text.to_owned() });
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

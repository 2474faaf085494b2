//! Calls of a controller to media handlers and GC.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Clock, Store};
use tenure_meet_mc::Peers;
use tenure_meet_mc::actor::Assignment;
use tenure_meet_mc::meeting::Settings;
use tenure_meet_wire::internal::{MhAssignment, MhRejectionReason};
use tenure_meet_wire::jwt::Role;
use tenure_meet_wire::signaling::client_message::Payload as ClientPayload;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{EndMeetingRequest, ErrorCode, HostMuteRequest, ServerMessage};
use tenure_store::TokioClock;

use crate::actors::store;
use crate::fixture::meeting;
use crate::harness::{Harness, handler};
use crate::peers::{Gc, Mh, peers};

struct Town {
    clock: Arc<TokioClock>,
    harness: Harness,
    peers: Peers,
    store: Arc<dyn Store>,
}

/// A controller whose meeting has these handlers.
async fn town(handlers: &[(&str, &Mh)]) -> Town {
    let (clock, store) = store();
    let peers = peers(&store, "mc-1");
    for (name, mh) in handlers {
        mh.offer(&peers.channels, name, &store);
    }
    let harness = Harness::at_home(&store, "mc-1", peers.clone());
    let handlers = handlers.iter().map(|(name, _)| handler(name, &format!("inproc:{name}"))).collect();
    let assignment = Assignment { meeting: meeting(), settings: Settings::default(), handlers };
    harness.controller.assign(assignment).await;
    Town { clock, harness, peers, store }
}

async fn pass(clock: &TokioClock, seconds: u64) {
    clock.sleep_until(clock.now() + Duration::from_secs(seconds)).await;
}

fn enforced(message: &ServerMessage) -> Option<(bool, Vec<String>)> {
    match &message.payload {
        Some(Payload::MuteEnforced(mute)) => Some((mute.enforced, mute.missing_handlers.clone())),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_participant_registers_the_meeting_at_every_handler_once() {
    let (one, two) = (Mh::default(), Mh::default());
    let mut town = town(&[("mh-1", &one), ("mh-2", &two)]).await;
    let (_ada, _) = town.harness.join("ada", Role::Host).await;
    let (_bob, _) = town.harness.join("bob", Role::Participant).await;
    pass(&town.clock, 30).await;
    for mh in [&one, &two] {
        let notified = mh.registered.lock();
        assert_eq!(notified.len(), 1);
        assert_eq!((notified[0].meeting_id.as_str(), notified[0].mc_id.as_str()), ("abc", "mc-1"));
        assert_eq!(notified[0].mc_grpc_endpoint, "inproc:mc-1");
        assert!(notified[0].generation > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_handler_is_called_three_times() {
    let (one, two) = (Mh::default(), Mh::default());
    one.answers.lock().extend([None, None, None, None]);
    let mut town = town(&[("mh-1", &one), ("mh-2", &two)]).await;
    let began = town.clock.now();
    let (_ada, _) = town.harness.join("ada", Role::Host).await;
    let notified = |timeouts| {
        let (one, clock) = (one.clone(), town.clock.clone());
        async move {
            while one.registered.lock().len() < timeouts {
                clock.sleep_until(clock.now() + Duration::from_millis(10)).await;
            }
        }
    };
    notified(2).await;
    assert!(town.clock.now().since(began) >= Duration::from_secs(1));
    notified(3).await;
    assert!(town.clock.now().since(began) >= Duration::from_secs(3));
    pass(&town.clock, 60).await;
    assert_eq!((one.registered.lock().len(), two.registered.lock().len()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn handlers_that_all_refuse_are_replaced_and_clients_notified() {
    let (one, two, three, gc) = (Mh::default(), Mh::default(), Mh::default(), Gc::default());
    one.answers.lock().push_back(Some(MhRejectionReason::AtCapacity));
    two.answers.lock().push_back(Some(MhRejectionReason::Draining));
    let mut town = town(&[("mh-1", &one), ("mh-2", &two)]).await;
    gc.offer(&town.peers.channels, &town.store);
    three.offer(&town.peers.channels, "mh-3", &town.store);
    gc.others.lock().push(MhAssignment {
        mh_id: "mh-3".to_owned(),
        webtransport_endpoint: "https://127.0.0.1:3/wt/mh".to_owned(),
        grpc_endpoint: "inproc:mh-3".to_owned(),
        ..MhAssignment::default()
    });
    let (mut ada, welcome) = town.harness.join("ada", Role::Host).await;
    assert_eq!(welcome.media_servers.len(), 2);
    let changed = ada.until(|message| match &message.payload {
        Some(Payload::MediaServersChanged(changed)) => Some(changed.media_servers.clone()),
        _ => None,
    });
    assert_eq!(changed.await[0].media_handler_url, "https://127.0.0.1:3/wt/mh");
    assert_eq!(gc.replacements.lock()[0].failed_mh_ids, ["mh-1", "mh-2"]);
    assert_eq!(three.registered.lock().len(), 1);
    let (_bob, welcome) = town.harness.join("bob", Role::Participant).await;
    assert_eq!(welcome.media_servers.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_host_learns_which_handler_did_not_acknowledge_a_mute() {
    let (one, two) = (Mh::default(), Mh { deaf: true, ..Mh::default() });
    let mut town = town(&[("mh-1", &one), ("mh-2", &two)]).await;
    let (mut ada, _) = town.harness.join("ada", Role::Host).await;
    let (_bob, seat) = town.harness.join("bob", Role::Participant).await;
    let mute =
        HostMuteRequest { participant_id: seat.participant_id.clone(), audio: true, ..Default::default() };
    ada.ask(ClientPayload::HostMuteRequest(mute)).await;
    assert_eq!(ada.until(enforced).await, (false, vec!["mh-2".to_owned()]));
    let order = one.muted.lock()[0].clone();
    assert_eq!((order.participant_id, order.mute_epoch), (seat.participant_id, 1));
    assert!(order.audio_muted && !order.video_muted && order.generation > 0);
}

#[tokio::test(start_paused = true)]
async fn an_ended_meeting_is_released_at_handlers_then_reported_to_gc() {
    let (mh, gc) = (Mh::default(), Gc::default());
    let mut town = town(&[("mh-1", &mh)]).await;
    gc.offer(&town.peers.channels, &town.store);
    let (mut ada, _) = town.harness.join("ada", Role::Host).await;
    ada.ask(ClientPayload::EndMeetingRequest(EndMeetingRequest {})).await;
    ada.ended().await;
    while gc.ended.lock().is_empty() {
        town.clock.sleep_until(town.clock.now() + Duration::from_millis(10)).await;
    }
    let notified = gc.ended.lock()[0].clone();
    assert_eq!((notified.meeting_id.as_str(), notified.region.as_str()), ("abc", "here"));
    assert_eq!(mh.released.lock().len(), 1);
    let lease = town.store.inspect(&tenure_lease::Key::new("meeting:abc").unwrap()).await.unwrap();
    assert_eq!(lease.phase, tenure_lease::Phase::Free);
    assert_eq!(town.harness.controller.counts().await.meetings, 0);
}

#[tokio::test(start_paused = true)]
async fn an_empty_meeting_is_released_after_a_minute_and_reported_to_gc() {
    let (mh, gc) = (Mh::default(), Gc::default());
    let town = town(&[("mh-1", &mh)]).await;
    gc.offer(&town.peers.channels, &town.store);
    pass(&town.clock, 59).await;
    assert_eq!(town.harness.controller.counts().await.meetings, 1);
    while gc.ended.lock().is_empty() {
        pass(&town.clock, 1).await;
    }
    assert_eq!(town.harness.controller.counts().await.meetings, 0);
}

#[tokio::test(start_paused = true)]
async fn a_join_without_media_handlers_is_refused() {
    let mut town = town(&[]).await;
    let mut ada = town.harness.ask_to_join(town.harness.request("ada", Role::Host)).await;
    assert_eq!(ada.error().await.0, ErrorCode::InternalError);
}

//! Media handlers and GC, as a controller speaks with them.

use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Store};
use lease_store::TokioClock;
use meet_mc::Peers;
use meet_mc::actor::Assignment;
use meet_mc::meeting::Settings;
use meet_wire::internal::{MhAssignment, MhRejectionReason};
use meet_wire::jwt::Role;
use meet_wire::signaling::client_message::Payload as Ask;
use meet_wire::signaling::server_message::Payload;
use meet_wire::signaling::{EndMeetingRequest, ErrorCode, HostMuteRequest, ServerMessage};

use crate::actors::store;
use crate::club::{Club, handler};
use crate::house::meeting;
use crate::neighbours::{Gc, Mh, peers};

struct Town {
    clock: Arc<TokioClock>,
    club: Club,
    peers: Peers,
    store: Arc<dyn Store>,
}

/// A controller whose meeting has these handlers.
async fn town(handlers: &[(&str, &Mh)]) -> Town {
    let (clock, store) = store();
    let peers = peers(&store, "mc-1");
    for (name, mh) in handlers {
        mh.offer(&peers.lines, name, &store);
    }
    let club = Club::at_home(&store, "mc-1", peers.clone());
    let handlers = handlers.iter().map(|(name, _)| handler(name, &format!("inproc:{name}"))).collect();
    let assignment = Assignment { meeting: meeting(), settings: Settings::default(), handlers };
    club.controller.assign(assignment).await;
    Town { clock, club, peers, store }
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
async fn the_first_participant_has_every_handler_told_once_and_the_second_has_not() {
    let (one, two) = (Mh::default(), Mh::default());
    let mut town = town(&[("mh-1", &one), ("mh-2", &two)]).await;
    let (_ada, _) = town.club.join("ada", Role::Host).await;
    let (_bob, _) = town.club.join("bob", Role::Participant).await;
    pass(&town.clock, 30).await;
    for mh in [&one, &two] {
        let told = mh.registered.lock();
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].meeting_id.as_str(), told[0].mc_id.as_str()), ("abc", "mc-1"));
        assert_eq!(told[0].mc_grpc_endpoint, "inproc:mc-1");
        assert!(told[0].generation > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_does_not_answer_is_told_three_times_and_no_more() {
    let (one, two) = (Mh::default(), Mh::default());
    one.answers.lock().extend([None, None, None, None]);
    let mut town = town(&[("mh-1", &one), ("mh-2", &two)]).await;
    let began = town.clock.now();
    let (_ada, _) = town.club.join("ada", Role::Host).await;
    let told = |times| {
        let (one, clock) = (one.clone(), town.clock.clone());
        async move {
            while one.registered.lock().len() < times {
                clock.sleep_until(clock.now() + Duration::from_millis(10)).await;
            }
        }
    };
    told(2).await;
    assert!(town.clock.now().since(began) >= Duration::from_secs(1));
    told(3).await;
    assert!(town.clock.now().since(began) >= Duration::from_secs(3));
    pass(&town.clock, 60).await;
    assert_eq!((one.registered.lock().len(), two.registered.lock().len()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn when_all_handlers_refuse_others_are_asked_for_and_everybody_learns_of_them() {
    let (one, two, three, gc) = (Mh::default(), Mh::default(), Mh::default(), Gc::default());
    one.answers.lock().push_back(Some(MhRejectionReason::AtCapacity));
    two.answers.lock().push_back(Some(MhRejectionReason::Draining));
    let mut town = town(&[("mh-1", &one), ("mh-2", &two)]).await;
    gc.offer(&town.peers.lines, &town.store);
    three.offer(&town.peers.lines, "mh-3", &town.store);
    gc.others.lock().push(MhAssignment {
        mh_id: "mh-3".to_owned(),
        webtransport_endpoint: "https://127.0.0.1:3/wt/mh".to_owned(),
        grpc_endpoint: "inproc:mh-3".to_owned(),
        ..MhAssignment::default()
    });
    let (mut ada, welcome) = town.club.join("ada", Role::Host).await;
    assert_eq!(welcome.media_servers.len(), 2);
    let changed = ada.until(|message| match &message.payload {
        Some(Payload::MediaServersChanged(changed)) => Some(changed.media_servers.clone()),
        _ => None,
    });
    assert_eq!(changed.await[0].media_handler_url, "https://127.0.0.1:3/wt/mh");
    assert_eq!(gc.replacements.lock()[0].failed_mh_ids, ["mh-1", "mh-2"]);
    assert_eq!(three.registered.lock().len(), 1);
    let (_bob, welcome) = town.club.join("bob", Role::Participant).await;
    assert_eq!(welcome.media_servers.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_host_is_told_which_handler_has_not_acknowledged_a_mute() {
    let (one, two) = (Mh::default(), Mh { deaf: true, ..Mh::default() });
    let mut town = town(&[("mh-1", &one), ("mh-2", &two)]).await;
    let (mut ada, _) = town.club.join("ada", Role::Host).await;
    let (_bob, seat) = town.club.join("bob", Role::Participant).await;
    let mute =
        HostMuteRequest { participant_id: seat.participant_id.clone(), audio: true, ..Default::default() };
    ada.ask(Ask::HostMuteRequest(mute)).await;
    assert_eq!(ada.until(enforced).await, (false, vec!["mh-2".to_owned()]));
    let order = one.muted.lock()[0].clone();
    assert_eq!((order.participant_id, order.mute_epoch), (seat.participant_id, 1));
    assert!(order.audio_muted && !order.video_muted && order.generation > 0);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_meeting_is_told_to_its_handlers_and_then_to_gc_when_the_lease_is_free() {
    let (mh, gc) = (Mh::default(), Gc::default());
    let mut town = town(&[("mh-1", &mh)]).await;
    gc.offer(&town.peers.lines, &town.store);
    let (mut ada, _) = town.club.join("ada", Role::Host).await;
    ada.ask(Ask::EndMeetingRequest(EndMeetingRequest {})).await;
    ada.ended().await;
    while gc.ended.lock().is_empty() {
        town.clock.sleep_until(town.clock.now() + Duration::from_millis(10)).await;
    }
    let told = gc.ended.lock()[0].clone();
    assert_eq!((told.meeting_id.as_str(), told.region.as_str()), ("abc", "here"));
    assert_eq!(mh.released.lock().len(), 1);
    let lease = town.store.inspect(&lease::Key::new("meeting:abc").unwrap()).await.unwrap();
    assert_eq!(lease.phase, lease::Phase::Free);
    assert_eq!(town.club.controller.counts().await.meetings, 0);
}

#[tokio::test(start_paused = true)]
async fn an_empty_meeting_is_given_back_after_a_minute_and_gc_is_told() {
    let (mh, gc) = (Mh::default(), Gc::default());
    let town = town(&[("mh-1", &mh)]).await;
    gc.offer(&town.peers.lines, &town.store);
    pass(&town.clock, 59).await;
    assert_eq!(town.club.controller.counts().await.meetings, 1);
    while gc.ended.lock().is_empty() {
        pass(&town.clock, 1).await;
    }
    assert_eq!(town.club.controller.counts().await.meetings, 0);
}

#[tokio::test(start_paused = true)]
async fn nobody_joins_a_meeting_that_has_no_media_handler() {
    let mut town = town(&[]).await;
    let mut ada = town.club.ask_to_join(town.club.request("ada", Role::Host)).await;
    assert_eq!(ada.error().await.0, ErrorCode::InternalError);
}

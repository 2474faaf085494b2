//! Calls of a controller to media handlers and GC.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tenure_lease::{Clock, Store};
use tenure_meet_mc::Peers;
use tenure_meet_mc::actor::Assignment;
use tenure_meet_mc::meeting::Settings;
use tenure_meet_wire::internal::{MediaSeat, MhAssignment, MhRejectionReason, ReleaseReason};
use tenure_meet_wire::jwt::Role;
use tenure_meet_wire::media::grant::HandlerKeys;
use tenure_meet_wire::signaling::client_message::Payload as ClientPayload;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{
    EndMeetingRequest, ErrorCode, HostMuteRequest, KickRequest, LayoutConfig, LayoutType, LeaveRequest,
    MediaConnectionUpdate, MediaGrantRequest, MediaServerInfo, MhConnectionState, MhConnectionStatus,
    PublishStream, ServerMessage, StreamType, SubscribeToLayout,
};
use tenure_store::TokioClock;

use crate::actors::store;
use crate::fixture::{meeting, secrets};
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
    let assignment =
        Assignment { meeting: meeting(), settings: Settings::default(), handlers, instead_of: None };
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

/// Waits until the condition holds.
async fn wait_until(clock: &TokioClock, holds: impl Fn() -> bool) {
    while !holds() {
        clock.sleep_until(clock.now() + Duration::from_millis(10)).await;
    }
}

fn offered(id: &str, endpoint: &str) -> MhAssignment {
    MhAssignment {
        mh_id: id.to_owned(),
        webtransport_endpoint: endpoint.to_owned(),
        grpc_endpoint: format!("inproc:{id}"),
        ..MhAssignment::default()
    }
}

fn changed(message: &ServerMessage) -> Option<Vec<String>> {
    match &message.payload {
        Some(Payload::MediaServersChanged(changed)) => {
            Some(changed.media_servers.iter().map(|server| server.media_handler_url.clone()).collect())
        }
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_meeting_is_registered_at_every_handler_with_keys_and_seats_and_renewed() {
    let (one, two) = (Mh::default(), Mh::default());
    let mut town = town(&[("mh-1", &one), ("mh-2", &two)]).await;
    let (_ada, ada) = town.harness.join("ada", Role::Host).await;
    let (_bob, bob) = town.harness.join("bob", Role::Participant).await;
    pass(&town.clock, 25).await;
    for (name, mh) in [("mh-1", &one), ("mh-2", &two)] {
        let notified = mh.registered.lock();
        assert_eq!(notified.len(), 3, "at once, and every ten seconds");
        let (first, last) = (&notified[0], &notified[2]);
        assert_eq!((first.meeting_id.as_str(), first.mc_id.as_str()), ("abc", "mc-1"));
        assert_eq!((first.mc_grpc_endpoint.as_str(), first.lease_ms), ("inproc:mc-1", 30_000));
        assert!(first.generation > 0);
        let keys = HandlerKeys::derive(&secrets(), &meeting(), name);
        assert_eq!(first.handler_key, [keys.current.expose().to_vec()]);
        let seats: BTreeSet<&str> = last.seats.iter().map(|seat| seat.participant_id.as_str()).collect();
        assert_eq!(seats, BTreeSet::from([ada.participant_id.as_str(), bob.participant_id.as_str()]));
        let granted = |seat: &MediaSeat| seat.may_send_audio && seat.may_send_video && seat.may_receive;
        assert!(last.seats.iter().all(|seat| granted(seat) && seat.mute_epoch >= 1 && seat.epoch == 1));
    }
}

#[tokio::test(start_paused = true)]
async fn every_participant_gets_a_mask_at_join() {
    let mh = Mh::default();
    let mut town = town(&[("mh-1", &mh)]).await;
    let (_ada, ada) = town.harness.join("ada", Role::Host).await;
    let (_bob, bob) = town.harness.join("bob", Role::Participant).await;
    wait_until(&town.clock, || mh.muted.lock().len() >= 2).await;
    let masks = mh.muted.lock().clone();
    for (mask, answer) in masks.iter().zip([ada, bob]) {
        assert_eq!(mask.participant_id, answer.participant_id);
        assert!(!mask.audio_muted && !mask.video_muted);
        assert_eq!(mask.mute_epoch, answer.self_state.unwrap().mute.unwrap().mute_epoch);
    }
    assert!(masks[0].mute_epoch >= 1 && masks[1].mute_epoch > masks[0].mute_epoch);
}

#[tokio::test(start_paused = true)]
async fn a_silent_handler_is_called_three_times_at_first() {
    let (one, two) = (Mh::default(), Mh::default());
    one.answers.lock().extend([None, None, None]);
    let mut town = town(&[("mh-1", &one), ("mh-2", &two)]).await;
    let began = town.clock.now();
    let (_ada, _) = town.harness.join("ada", Role::Host).await;
    wait_until(&town.clock, || one.registered.lock().len() >= 2).await;
    assert!(town.clock.now().since(began) >= Duration::from_secs(1));
    wait_until(&town.clock, || one.registered.lock().len() >= 3).await;
    assert!(town.clock.now().since(began) >= Duration::from_secs(3));
    assert_eq!((one.registered.lock().len(), two.registered.lock().len()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_restarted_learns_the_meeting_and_the_mute_again() {
    let mh = Mh::default();
    let mut town = town(&[("mh-1", &mh)]).await;
    let (mut ada, _) = town.harness.join("ada", Role::Host).await;
    let (_bob, seat) = town.harness.join("bob", Role::Participant).await;
    wait_until(&town.clock, || mh.muted.lock().len() >= 2).await;
    mh.unknown.store(true, Ordering::Relaxed);
    let mute =
        HostMuteRequest { participant_id: seat.participant_id.clone(), audio: true, ..Default::default() };
    ada.ask(ClientPayload::HostMuteRequest(mute)).await;
    assert_eq!(ada.until(enforced).await, (true, Vec::new()));
    let last = mh.registered.lock().last().unwrap().clone();
    let bob = last.seats.iter().find(|known| known.participant_id == seat.participant_id).unwrap();
    assert!(bob.audio_muted && mh.muted.lock().last().unwrap().audio_muted);
}

#[tokio::test(start_paused = true)]
async fn the_next_owner_registers_with_all_seats_and_their_mutes() {
    let mh = Mh::default();
    let mut town = town(&[("mh-1", &mh)]).await;
    let (mut ada, seat) = town.harness.join("ada", Role::Host).await;
    let (_bob, bob) = town.harness.join("bob", Role::Participant).await;
    let mute =
        HostMuteRequest { participant_id: bob.participant_id.clone(), video: true, ..Default::default() };
    ada.ask(ClientPayload::HostMuteRequest(mute)).await;
    ada.until(enforced).await;
    town.harness.running.shut_down().await;
    let before = mh.registered.lock().len();
    let next = peers(&town.store, "mc-2");
    mh.offer(&next.channels, "mh-1", &town.store);
    let mut harness = Harness::at_home(&town.store, "mc-2", next);
    harness.assign().await;
    harness.resume("ada", Role::Host, &seat, seat.event_seq).await;
    wait_until(&town.clock, || mh.registered.lock().len() > before).await;
    let last = mh.registered.lock().last().unwrap().clone();
    assert_eq!((last.mc_id.as_str(), last.seats.len()), ("mc-2", 2));
    let muted = last.seats.iter().find(|known| known.participant_id == bob.participant_id).unwrap();
    assert!(muted.video_muted && muted.mute_epoch > 1);
}

#[tokio::test(start_paused = true)]
async fn participants_that_leave_or_are_kicked_or_time_out_are_released_at_handlers() {
    let mh = Mh::default();
    let mut town = town(&[("mh-1", &mh)]).await;
    let (mut ada, _) = town.harness.join("ada", Role::Host).await;
    let (mut bob, left) = town.harness.join("bob", Role::Participant).await;
    let (_cyd, kicked) = town.harness.join("cyd", Role::Participant).await;
    let (dan, lost) = town.harness.join("dan", Role::Participant).await;
    bob.ask(ClientPayload::LeaveRequest(LeaveRequest {})).await;
    wait_until(&town.clock, || mh.left.lock().len() == 1).await;
    let kick = KickRequest { participant_id: kicked.participant_id.clone(), reason: String::new() };
    ada.ask(ClientPayload::KickRequest(kick)).await;
    wait_until(&town.clock, || mh.left.lock().len() == 2).await;
    dan.wire.cut();
    wait_until(&town.clock, || mh.left.lock().len() == 3).await;
    let reasons = [ReleaseReason::Left, ReleaseReason::Kicked, ReleaseReason::Timeout];
    for ((release, answer), reason) in mh.left.lock().iter().zip([left, kicked, lost]).zip(reasons) {
        assert_eq!((release.participant_id.as_str(), release.epoch), (answer.participant_id.as_str(), 1));
        assert_eq!((release.reason(), release.meeting_id.as_str()), (reason, "abc"));
        assert!(release.generation > 0);
    }
}

#[tokio::test(start_paused = true)]
async fn each_handler_gets_its_own_grant_with_every_join_and_on_request() {
    let (one, two) = (Mh::default(), Mh::default());
    let mut town = town(&[("mh-1", &one), ("mh-2", &two)]).await;
    let open = |servers: &[MediaServerInfo], epoch: u64| {
        let now = town.store.clock().wall().as_millis();
        for (server, name) in servers.iter().zip(["mh-1", "mh-2"]) {
            let keys = HandlerKeys::derive(&secrets(), &meeting(), name);
            let grant = keys.open(&server.media_grant, &meeting(), name, now).unwrap();
            assert_eq!((grant.user_id.as_str(), grant.epoch), ("ada", epoch));
            assert!(grant.may_send_audio && grant.may_send_video && grant.may_receive);
            assert!(grant.mute_epoch >= 1 && grant.generation > 0);
        }
        assert_eq!(servers.len(), 2);
        servers[0].media_grant.clone()
    };
    let (_ada, first) = town.harness.join("ada", Role::Host).await;
    let join = open(&first.media_servers, 1);
    let (mut ada, second) = town.harness.resume("ada", Role::Host, &first, first.event_seq).await;
    let resume = open(&second.media_servers, 2);
    let seq = ada.ask(ClientPayload::MediaGrantRequest(MediaGrantRequest {})).await;
    let answer = ada.until(|message| match &message.payload {
        Some(Payload::MediaServersChanged(changed)) => Some((message.seq, changed.media_servers.clone())),
        _ => None,
    });
    let (answered, servers) = answer.await;
    assert_eq!(answered, seq);
    let requested = open(&servers, 2);
    assert!(join != resume && resume != requested, "each grant is spent once");
}

#[tokio::test(start_paused = true)]
async fn a_lost_handler_is_replaced_and_the_other_one_becomes_primary() {
    let (one, two, three, gc) = (Mh::default(), Mh::default(), Mh::default(), Gc::default());
    let mut town = town(&[("mh-1", &one), ("mh-2", &two)]).await;
    gc.offer(&town.peers.channels, &town.store);
    three.offer(&town.peers.channels, "mh-3", &town.store);
    gc.others.lock().push(offered("mh-3", "https://127.0.0.1:3/wt/mh"));
    let (mut ada, welcome) = town.harness.join("ada", Role::Host).await;
    let url = |index: usize| welcome.media_servers[index].media_handler_url.clone();
    wait_until(&town.clock, || one.registered.lock().len() == 1).await;
    let report = |state: MhConnectionState| {
        let status = MhConnectionStatus { mh_url: url(0), state: state.into(), ..Default::default() };
        ClientPayload::MediaConnectionUpdate(MediaConnectionUpdate { statuses: vec![status] })
    };
    one.down.store(true, Ordering::Relaxed);
    let began = town.clock.now();
    ada.ask(report(MhConnectionState::Failed)).await;
    assert_eq!(ada.until(changed).await, [url(1), "https://127.0.0.1:3/wt/mh".to_owned()]);
    assert!(town.clock.now().since(began) < Duration::from_secs(1), "the report made it look at once");
    let request = gc.replacements.lock()[0].clone();
    assert_eq!(
        (request.failed_mh_ids, request.kept_mh_ids),
        (vec!["mh-1".to_owned()], vec!["mh-2".to_owned()])
    );
    wait_until(&town.clock, || three.registered.lock().len() == 1).await;
    assert_eq!(three.registered.lock()[0].seats.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_answers_is_not_replaced_because_one_of_three_users_says_so() {
    let (one, two, gc) = (Mh::default(), Mh::default(), Gc::default());
    let mut town = town(&[("mh-1", &one), ("mh-2", &two)]).await;
    gc.offer(&town.peers.channels, &town.store);
    gc.others.lock().push(offered("mh-3", "https://127.0.0.1:3/wt/mh"));
    let (mut ada, welcome) = town.harness.join("ada", Role::Host).await;
    let (mut bob, _) = town.harness.join("bob", Role::Participant).await;
    let (_cyd, _) = town.harness.join("cyd", Role::Participant).await;
    let mh_url = welcome.media_servers[0].media_handler_url.clone();
    let failed = || {
        let state = MhConnectionState::Failed.into();
        let statuses = vec![MhConnectionStatus { mh_url: mh_url.clone(), state, ..Default::default() }];
        ClientPayload::MediaConnectionUpdate(MediaConnectionUpdate { statuses })
    };
    ada.ask(failed()).await;
    pass(&town.clock, 30).await;
    assert!(gc.replacements.lock().is_empty());
    bob.ask(failed()).await;
    wait_until(&town.clock, || gc.replacements.lock().len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_layout_follows_publications_and_speakers() {
    let mh = Mh::default();
    let mut town = town(&[("mh-1", &mh)]).await;
    let (mut ada, _) = town.harness.join("ada", Role::Host).await;
    let (mut bob, bob_seat) = town.harness.join("bob", Role::Participant).await;
    pass(&town.clock, 1).await;
    let (mut cyd, cyd_seat) = town.harness.join("cyd", Role::Participant).await;
    let camera = || PublishStream { stream_id: 1, r#type: StreamType::Video.into(), metadata: String::new() };
    bob.ask(ClientPayload::PublishStream(camera())).await;
    cyd.ask(ClientPayload::PublishStream(camera())).await;
    let config = Some(LayoutConfig { max_streams: 1, ..LayoutConfig::default() });
    let layout_type = LayoutType::Speaker.into();
    let layout = SubscribeToLayout { layout_type, config, stream_ids: Vec::new() };
    ada.ask(ClientPayload::SubscribeToLayout(layout)).await;
    let shown = |message: &ServerMessage| match &message.payload {
        Some(Payload::StreamAssignments(shown)) => {
            Some(shown.assignments.iter().map(|slot| slot.participant_id.clone()).collect::<Vec<_>>())
        }
        _ => None,
    };
    assert_eq!(ada.until(shown).await, [bob_seat.participant_id]);
    let speaker = tenure_meet_wire::Id::parse(&cyd_seat.participant_id).unwrap();
    town.harness.controller.report_speakers(&meeting(), vec![speaker]).await;
    assert_eq!(ada.until(shown).await, [cyd_seat.participant_id]);
}

#[tokio::test(start_paused = true)]
async fn handlers_that_all_refuse_are_replaced_and_clients_notified() {
    let (one, two, three, gc) = (Mh::default(), Mh::default(), Mh::default(), Gc::default());
    one.answers.lock().push_back(Some(MhRejectionReason::AtCapacity));
    two.answers.lock().push_back(Some(MhRejectionReason::Draining));
    let mut town = town(&[("mh-1", &one), ("mh-2", &two)]).await;
    gc.offer(&town.peers.channels, &town.store);
    three.offer(&town.peers.channels, "mh-3", &town.store);
    gc.others.lock().push(offered("mh-3", "https://127.0.0.1:3/wt/mh"));
    let (mut ada, welcome) = town.harness.join("ada", Role::Host).await;
    assert_eq!(welcome.media_servers.len(), 2);
    assert_eq!(ada.until(changed).await, ["https://127.0.0.1:3/wt/mh"]);
    assert_eq!(gc.replacements.lock()[0].failed_mh_ids, ["mh-1", "mh-2"]);
    wait_until(&town.clock, || three.registered.lock().len() == 1).await;
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
    let order = one.muted.lock().last().unwrap().clone();
    assert_eq!((order.participant_id, order.mute_epoch), (seat.participant_id, 3));
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

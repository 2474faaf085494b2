//! What hosts decide: bans, mutes and admission, over connections and across controllers.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Clock, Store};
use tenure_meet_mc::RateLimit;
use tenure_meet_mc::meeting::Settings;
use tenure_meet_wire::jwt::Role;
use tenure_meet_wire::signaling::client_message::Payload as ClientPayload;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{
    AdmitRequest, BannedUsers, ErrorCode, HostMuteRequest, JoinResponse, KickRequest, LeaveRequest, LiftBan,
    MuteRequest, RaiseHand, ServerMessage, WaitingRoom,
};
use tenure_meet_wire::transport::{Closed, Session as _};
use tenure_store::TokioClock;

use crate::actors::store;
use crate::harness::{Client, Harness};

async fn harness(settings: Settings) -> (Arc<TokioClock>, Arc<dyn Store>, Harness) {
    let (clock, store) = store();
    let harness = Harness::open(&store, "mc-1");
    harness.assign_with(settings).await;
    (clock, store, harness)
}

fn kick(seat: &JoinResponse) -> ClientPayload {
    ClientPayload::KickRequest(KickRequest {
        participant_id: seat.participant_id.clone(),
        reason: String::new(),
    })
}

fn mute(seat: &JoinResponse, audio: bool) -> ClientPayload {
    let participant_id = seat.participant_id.clone();
    ClientPayload::HostMuteRequest(HostMuteRequest { participant_id, audio, ..Default::default() })
}

fn banned(message: &ServerMessage) -> Option<BannedUsers> {
    match &message.payload {
        Some(Payload::Banned(banned)) => Some(banned.clone()),
        _ => None,
    }
}

fn waiting(message: &ServerMessage) -> Option<WaitingRoom> {
    match &message.payload {
        Some(Payload::Waiting(room)) => Some(room.clone()),
        _ => None,
    }
}

fn accepted(message: &ServerMessage) -> Option<u64> {
    matches!(message.payload, Some(Payload::Accepted(_))).then_some(message.seq)
}

async fn refused(harness: &mut Harness, user: &str) -> ErrorCode {
    let mut client = harness.ask_to_join(harness.request(user, Role::Participant)).await;
    client.error().await.0
}

/// The next controller, after this one is gone.
async fn takeover(store: &Arc<dyn Store>, harness: Harness) -> Harness {
    harness.running.shut_down().await;
    let next = Harness::open(store, "mc-2");
    next.assign().await;
    next
}

fn audio_muted(answer: &JoinResponse) -> bool {
    answer.self_state.as_ref().unwrap().mute.as_ref().unwrap().audio_host
}

#[tokio::test(start_paused = true)]
async fn a_kicked_user_cannot_join_again_at_this_controller_or_the_next_until_the_ban_is_lifted() {
    let (_clock, store, mut harness) = harness(Settings::default()).await;
    let (mut ada, seat) = harness.join("ada", Role::Host).await;
    let (mut eve, eve_seat) = harness.join("eve", Role::Participant).await;
    ada.ask(kick(&eve_seat)).await;
    assert_eq!(eve.ended().await, Closed::Code(4004));
    let users = ada.until(banned).await.users;
    assert_eq!((users.len(), users[0].user_id.as_str(), users[0].name.as_str()), (1, "eve", "EVE"));
    assert_eq!(refused(&mut harness, "eve").await, ErrorCode::Forbidden);
    let mut harness = takeover(&store, harness).await;
    assert_eq!(refused(&mut harness, "eve").await, ErrorCode::Forbidden);
    let (mut ada, _) = harness.resume("ada", Role::Host, &seat, seat.event_seq).await;
    assert_eq!(ada.until(banned).await.users.len(), 1, "the host sees the ban after the takeover");
    ada.ask(ClientPayload::LiftBan(LiftBan { user_id: "eve".to_owned() })).await;
    assert_eq!(ada.until(banned).await.users.len(), 0);
    harness.join("eve", Role::Participant).await;
}

#[tokio::test(start_paused = true)]
async fn a_host_mute_survives_joining_again_another_device_and_a_takeover() {
    let (_clock, store, mut harness) = harness(Settings::default()).await;
    let (mut ada, _) = harness.join("ada", Role::Host).await;
    let (mut bob, seat) = harness.join("bob", Role::Participant).await;
    let seq = ada.ask(mute(&seat, true)).await;
    ada.until(|message| accepted(message).filter(|answered| *answered == seq)).await;
    let (_phone, phone) = harness.join("bob", Role::Participant).await;
    assert!(audio_muted(&phone), "another device");
    bob.ask(ClientPayload::LeaveRequest(LeaveRequest {})).await;
    bob.ended().await;
    let (_again, again) = harness.join("bob", Role::Participant).await;
    assert!(audio_muted(&again), "joined again");
    let mut harness = takeover(&store, harness).await;
    let (_late, late) = harness.join("bob", Role::Participant).await;
    assert!(audio_muted(&late), "another controller");
    let (_cyd, cyd) = harness.join("cyd", Role::Participant).await;
    assert!(!audio_muted(&cyd));
}

#[tokio::test(start_paused = true)]
async fn guests_enter_muted_after_a_kick_also_at_the_next_controller() {
    let (_clock, store, mut harness) = harness(Settings::default()).await;
    let (mut ada, _) = harness.join("ada", Role::Host).await;
    let mut guest = harness.ask_to_join(harness.guest("g1")).await;
    let seat = guest.welcomed().await;
    assert!(!audio_muted(&seat));
    ada.ask(kick(&seat)).await;
    guest.ended().await;
    let mut harness = takeover(&store, harness).await;
    let mut other = harness.ask_to_join(harness.guest("g2")).await;
    let other_seat = other.welcomed().await;
    assert!(audio_muted(&other_seat));
    let (mut ada, _) = harness.join("ada", Role::Host).await;
    let admit = AdmitRequest { participant_ids: vec![other_seat.participant_id], all: false };
    ada.ask(ClientPayload::Admit(admit)).await;
    let unmuted = other.until(|message| match &message.payload {
        Some(Payload::ParticipantMuteUpdate(mute)) => Some(!mute.audio_host),
        _ => None,
    });
    assert!(unmuted.await);
}

/// A client that waits for a host.
async fn wait(harness: &mut Harness, user: &str) -> (Client, WaitingRoom) {
    let mut client = harness.ask_to_join(harness.request(user, Role::Participant)).await;
    let message = client.next().await;
    assert_eq!(message.seq, 1, "the answer to the join request");
    let room = waiting(&message).expect("the waiting room");
    assert!(room.waits && room.participants.len() == 1);
    (client, room)
}

#[tokio::test(start_paused = true)]
async fn participants_wait_for_the_host_and_are_admitted_or_turned_away() {
    let (clock, _store, mut harness) = harness(Settings { waiting_room: true, ..Settings::default() }).await;
    let (mut bob, room) = wait(&mut harness, "bob").await;
    assert!(!room.host_present);
    clock.sleep_until(clock.now() + Duration::from_secs(600)).await;
    let (mut ada, _) = harness.join("ada", Role::Host).await;
    assert!(bob.until(waiting).await.host_present, "the host arrived");
    let (mut eve, _) = wait(&mut harness, "eve").await;
    let room = ada.until(|message| waiting(message).filter(|room| room.participants.len() == 2)).await;
    assert!(!room.waits);
    let names: Vec<&str> = room.participants.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["BOB", "EVE"]);
    let id = |index: usize| room.participants[index].participant_id.clone();
    let admit = AdmitRequest { participant_ids: vec![id(0)], all: false };
    ada.ask(ClientPayload::Admit(admit)).await;
    let seat = bob.welcomed().await;
    assert_eq!(seat.participant_id, id(0), "the participant keeps its id");
    let turn_away = KickRequest { participant_id: id(1), reason: String::new() };
    ada.ask(ClientPayload::KickRequest(turn_away)).await;
    assert_eq!(eve.session.closed().await, Closed::Code(4004));
    bob.ask(ClientPayload::RaiseHand(RaiseHand { raised: true, participant_id: String::new() })).await;
    let raised = ada.until(|message| match &message.payload {
        Some(Payload::Hand(hand)) => Some((hand.participant_id.clone(), hand.raised, hand.raised_at > 0)),
        _ => None,
    });
    assert_eq!(raised.await, (id(0), true, true));
    assert_eq!(eve.ended().await, Closed::Code(4004));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_stops_waiting_leaves_the_list_and_all_others_are_admitted_at_once() {
    let (_clock, _store, mut harness) = harness(Settings { waiting_room: true, ..Settings::default() }).await;
    let (mut ada, _) = harness.join("ada", Role::Host).await;
    let mut clients = Vec::new();
    for user in ["bob", "cyd", "dan"] {
        clients.push(wait(&mut harness, user).await.0);
    }
    clients[0].wire.cut();
    let without_bob = |room: &WaitingRoom| {
        room.participants.len() == 2 && room.participants.iter().all(|entry| entry.name != "BOB")
    };
    ada.until(|message| waiting(message).filter(without_bob)).await;
    ada.ask(ClientPayload::Admit(AdmitRequest { participant_ids: Vec::new(), all: true })).await;
    for client in &mut clients[1..] {
        client.welcomed().await;
    }
    let empty = ada.until(|message| waiting(message).filter(|room| room.participants.is_empty()));
    empty.await;
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_events_closes_no_client_that_reads() {
    let (_clock, _store, mut harness) = harness(Settings::default()).await;
    let (mut ada, _) = harness.join("ada", Role::Host).await;
    let (mut bob, _) = harness.join("bob", Role::Participant).await;
    for number in 0..600 {
        let mute = MuteRequest { audio_muted: number % 2 == 0, video_muted: false };
        bob.ask(ClientPayload::MuteRequest(mute)).await;
    }
    let mut seen = 0;
    while seen < 600 {
        let message = ada.next().await;
        seen += usize::from(matches!(message.payload, Some(Payload::ParticipantMuteUpdate(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn every_kind_of_request_is_rate_limited() {
    let rate = RateLimit { burst: 3, per_second: 1 };
    let requests = [
        ClientPayload::MuteRequest(MuteRequest { audio_muted: true, video_muted: false }),
        ClientPayload::RaiseHand(RaiseHand { raised: true, participant_id: String::new() }),
        ClientPayload::Admit(AdmitRequest { participant_ids: Vec::new(), all: true }),
    ];
    for request in requests {
        let (_clock, store) = store();
        let often = RateLimit { burst: 100, per_second: 100 };
        let mut harness = Harness::rated(&store, "mc-1", often, rate);
        harness.assign().await;
        let (mut ada, _) = harness.join("ada", Role::Host).await;
        for _ in 0..4 {
            ada.ask(request.clone()).await;
        }
        let (code, _) = ada.error().await;
        assert_eq!(code, ErrorCode::RateLimited, "{request:?}");
    }
}

//! Participants join, chat, disconnect and resume.

use std::sync::Arc;

use tenure_lease::{Clock, Store};
use tenure_meet_wire::jwt::{MeetingClaims, Role, SigningKey, sign};
use tenure_meet_wire::signaling::client_message::Payload as ClientPayload;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{
    ChatRequest, DataRequest, ErrorCode, HostMuteRequest, JoinRequest, LeaveReason, LeaveRequest, Ping,
    Presence, ServerMessage, UnmuteRequest, UnmuteResponse,
};
use tenure_meet_wire::transport::{Closed, Session as _};
use tenure_store::{Local, TokioClock};

use crate::harness::{Harness, key};

pub(crate) fn store() -> (Arc<TokioClock>, Arc<dyn Store>) {
    let clock = Arc::new(TokioClock::default());
    (clock.clone(), Arc::new(Local::memory_on(clock)))
}

async fn harness() -> (Arc<TokioClock>, Harness) {
    let (clock, store) = store();
    let harness = Harness::open(&store, "mc-1");
    harness.assign().await;
    (clock, harness)
}

fn chat(text: &str) -> ClientPayload {
    ClientPayload::ChatRequest(ChatRequest { text: text.to_owned() })
}

fn said(message: &ServerMessage) -> Option<(u64, String)> {
    match &message.payload {
        Some(Payload::ChatMessage(chat)) => Some((message.event_seq, chat.text.clone())),
        _ => None,
    }
}

fn presence(message: &ServerMessage) -> Option<Presence> {
    match &message.payload {
        Some(Payload::ParticipantPresence(presence)) => Some(presence.presence()),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn participants_see_each_other_and_receive_events_in_one_order() {
    let (_clock, mut harness) = harness().await;
    let (mut ada, first) = harness.join("ada", Role::Host).await;
    assert!(first.existing_participants.is_empty() && !first.resumed && first.event_seq == 1);
    let (mut bob, second) = harness.join("bob", Role::Participant).await;
    assert_eq!(second.existing_participants[0].name, "ADA");
    let joined = ada.next().await;
    assert!(
        matches!(&joined.payload, Some(Payload::ParticipantJoined(p)) if p.participant.as_ref().unwrap().name == "BOB")
    );
    assert_eq!(joined.event_seq, 2);
    let seq = bob.ask(chat("hello")).await;
    assert_eq!(ada.until(said).await, (3, "hello".to_owned()));
    assert_eq!(bob.until(said).await, (3, "hello".to_owned()));
    let accepted = bob.next().await;
    assert!(matches!(accepted.payload, Some(Payload::Accepted(_))) && accepted.seq == seq);
    // Only for some: the others receive the event number.
    let to = vec![first.participant_id.clone()];
    let (mut cyd, _) = harness.join("cyd", Role::Participant).await;
    bob.ask(ClientPayload::DataRequest(DataRequest {
        topic: "t".to_owned(),
        payload: "x".into(),
        to_participant_ids: to,
    }))
    .await;
    let bare = cyd.next().await;
    assert_eq!((bare.payload, bare.event_seq), (None, 5));
    let data = ada.until(|message| {
        matches!(message.payload, Some(Payload::DataMessage(_))).then_some(message.event_seq)
    });
    assert_eq!(data.await, 5);
    bob.ask(ClientPayload::Ping(Ping { nonce: 7 })).await;
    let pong = bob.until(|message| match &message.payload {
        Some(Payload::Pong(pong)) => Some(pong.nonce),
        _ => None,
    });
    assert_eq!(pong.await, 7);
    bob.ask(ClientPayload::LeaveRequest(LeaveRequest {})).await;
    assert_eq!(bob.ended().await, Closed::Code(0));
    let left = ada.until(|message| match &message.payload {
        Some(Payload::ParticipantLeft(left)) => Some(left.reason()),
        _ => None,
    });
    assert_eq!(left.await, LeaveReason::Voluntary);
    assert_eq!(harness.controller.counts().await.participants, 2);
}

#[tokio::test(start_paused = true)]
async fn a_disconnected_participant_resumes_the_same_seat_without_missing_events() {
    let (_clock, mut harness) = harness().await;
    let (mut ada, _) = harness.join("ada", Role::Host).await;
    let (bob, first) = harness.join("bob", Role::Participant).await;
    bob.wire.cut();
    assert_eq!(ada.until(presence).await, Presence::Disconnected);
    ada.ask(chat("one")).await;
    ada.ask(chat("two")).await;
    ada.until(|message| said(message).filter(|(_, text)| text == "two")).await;
    let (mut bob, back) = harness.resume("bob", Role::Participant, &first, 2).await;
    assert!(back.resumed && back.replay && back.participant_id == first.participant_id);
    assert_ne!(back.binding_token, first.binding_token);
    let mut seen = Vec::new();
    while seen.len() < 4 {
        seen.push(bob.next().await.event_seq);
    }
    assert_eq!(seen, [3, 4, 5, 6], "gray, one, two, back");
    assert_eq!(ada.until(presence).await, Presence::Connected);
}

#[tokio::test(start_paused = true)]
async fn a_disconnected_participant_is_removed_after_thirty_seconds() {
    let (clock, mut harness) = harness().await;
    let (mut ada, _) = harness.join("ada", Role::Host).await;
    let (bob, first) = harness.join("bob", Role::Participant).await;
    let began = clock.now();
    bob.wire.cut();
    ada.until(presence).await;
    let left = ada.until(|message| match &message.payload {
        Some(Payload::ParticipantLeft(left)) => Some((left.participant_id.clone(), left.reason())),
        _ => None,
    });
    assert_eq!(left.await, (first.participant_id.clone(), LeaveReason::Timeout));
    assert_eq!(clock.now().since(began).as_secs(), 30);
    let (_bob, anew) = harness.resume("bob", Role::Participant, &first, 2).await;
    assert!(!anew.resumed && anew.participant_id != first.participant_id);
}

#[tokio::test(start_paused = true)]
async fn a_newer_connection_closes_the_older_one_and_keeps_the_seat() {
    let (_clock, mut harness) = harness().await;
    let (mut old, first) = harness.join("bob", Role::Participant).await;
    let (mut new, back) = harness.resume("bob", Role::Participant, &first, 1).await;
    assert!(back.resumed);
    assert_eq!(old.ended().await, Closed::Code(4001));
    new.ask(chat("still here")).await;
    assert_eq!(new.until(said).await.1, "still here");
    assert_eq!(harness.controller.counts().await.participants, 1);
}

#[tokio::test(start_paused = true)]
async fn a_muted_participant_requests_unmute_and_the_host_grants_it() {
    let (_clock, mut harness) = harness().await;
    let (mut ada, _) = harness.join("ada", Role::Host).await;
    let (mut bob, seat) = harness.join("bob", Role::Participant).await;
    let bob_id = seat.participant_id.clone();
    let mute = |participant_id: String| {
        ClientPayload::HostMuteRequest(HostMuteRequest {
            participant_id,
            audio: true,
            video: false,
            reason: String::new(),
        })
    };
    bob.ask(mute(bob_id.clone())).await;
    assert_eq!(bob.error().await.0, ErrorCode::Forbidden);
    ada.ask(mute(bob_id.clone())).await;
    let enforced = ada.until(|message| match &message.payload {
        Some(Payload::MuteEnforced(mute)) => Some((mute.enforced, mute.mute_epoch)),
        _ => None,
    });
    assert_eq!(enforced.await, (true, 3));
    let muted = |message: &ServerMessage| match &message.payload {
        Some(Payload::ParticipantMuteUpdate(update)) => Some(update.audio_host),
        _ => None,
    };
    assert!(bob.until(muted).await);
    bob.ask(ClientPayload::UnmuteRequest(UnmuteRequest { request_audio: true, request_video: false })).await;
    let asked = ada.until(|message| match &message.payload {
        Some(Payload::UnmuteRequest(asked)) => Some(asked.participant_id.clone()),
        _ => None,
    });
    assert_eq!(asked.await, bob_id);
    let grant = UnmuteResponse { participant_id: bob_id, audio_approved: true, video_approved: false };
    ada.ask(ClientPayload::UnmuteResponse(grant)).await;
    assert!(!bob.until(muted).await);
}

#[tokio::test(start_paused = true)]
async fn refused_joins_get_a_reason_and_all_bad_tokens_the_same() {
    let (_clock, mut harness) = harness().await;
    let good = harness.request("ada", Role::Host);
    let claims = harness.claims("ada", Role::Host);
    let with = |claims: MeetingClaims, key: &SigningKey| JoinRequest {
        join_token: sign(key, &claims).unwrap(),
        ..good.clone()
    };
    let other_key = SigningKey::from_seed(&[8; 32]).unwrap();
    let bad = [
        with(MeetingClaims { exp: claims.iat, ..claims.clone() }, &key()),
        with(MeetingClaims { iat: claims.iat + 301, exp: claims.exp + 301, ..claims.clone() }, &key()),
        with(MeetingClaims { meeting_id: "abd".to_owned(), ..claims.clone() }, &key()),
        with(claims.clone(), &other_key),
        JoinRequest { join_token: "garbage".to_owned(), ..good.clone() },
        JoinRequest { join_token: String::new(), ..good.clone() },
        JoinRequest { join_token: "x".repeat(8_193), ..good.clone() },
    ];
    for request in bad {
        let mut client = harness.ask_to_join(request).await;
        let (code, text) = client.error().await;
        assert_eq!(
            (code, text.as_str()),
            (ErrorCode::Unauthorized, "The access token is invalid or expired")
        );
    }
    let elsewhere = with(MeetingClaims { meeting_id: "abd".to_owned(), ..claims }, &key());
    let mut client = harness.ask_to_join(JoinRequest { meeting_id: "abd".to_owned(), ..elsewhere }).await;
    assert_eq!(client.error().await.0, ErrorCode::NotFound);
    let long = JoinRequest { participant_name: "x".repeat(257), ..good };
    assert_eq!(harness.ask_to_join(long).await.error().await.0, ErrorCode::InvalidRequest);
    let mut client = harness.connect().await;
    client.ask(chat("me first")).await;
    assert_eq!(client.error().await.0, ErrorCode::InvalidRequest);
    for garbage in [&[0xff; 8][..], &[0, 0, 0, 2, 0xff, 0xff], &[0; 4]] {
        let mut client = harness.connect().await;
        client.raw(garbage).await;
        assert_eq!(client.ended().await, Closed::Code(4005));
    }
    let mut silent = harness.connect().await;
    assert_eq!(silent.ended().await, Closed::Code(4005), "no join request within ten seconds");
    assert_eq!(harness.controller.counts().await.participants, 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_closed_and_delays_no_other() {
    let (_clock, mut harness) = harness().await;
    let (mut ada, _) = harness.join("ada", Role::Host).await;
    let (slow, _) = harness.join("slow", Role::Participant).await;
    let (mut heard, mut gray) = (0, false);
    for number in 0..800 {
        ada.ask(chat(&number.to_string())).await;
        while heard <= number {
            let message = ada.next().await;
            heard += u32::from(said(&message).is_some());
            gray |= presence(&message) == Some(Presence::Disconnected);
        }
    }
    assert_eq!(slow.session.closed().await, Closed::Code(4006));
    assert!(gray, "the disconnect was published");
}

#[tokio::test(start_paused = true)]
async fn garbage_after_the_join_closes_that_client_only() {
    let (_clock, mut harness) = harness().await;
    let (mut ada, _) = harness.join("ada", Role::Host).await;
    let (mut bob, _) = harness.join("bob", Role::Participant).await;
    bob.raw(&[0xff; 8]).await;
    assert_eq!(bob.ended().await, Closed::Code(4005));
    assert_eq!(ada.until(presence).await, Presence::Disconnected);
}

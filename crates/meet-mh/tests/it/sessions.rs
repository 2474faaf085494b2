//! Who is admitted, and what ends a session.

use std::time::Duration;

use tenure_meet_wire::internal::ReleaseReason;
use tenure_meet_wire::media::message::media_event::Payload as Event;
use tenure_meet_wire::media::message::media_request::Payload as Request;
use tenure_meet_wire::media::message::{Activate, MediaGrant, MediaRequest, Ping};
use tenure_meet_wire::signaling::ErrorCode;
use tenure_meet_wire::transport::{Closed, MessageWriter, Session as _};

use crate::client::{MediaClient, microphone};
use crate::harness::{Harness, harness, id, seat};

async fn refused(harness: &Harness, grant: &MediaGrant) {
    let client = harness.greet(grant, false).await;
    is_refused(client).await;
}

async fn is_refused<S: tenure_meet_wire::transport::Session>(mut client: MediaClient<S>) {
    let code = client.event(|event| match event {
        Event::Error(error) => Some(error.code()),
        other => panic!("{other:?}"),
    });
    assert_eq!(code.await, ErrorCode::Unauthorized);
    assert_eq!(client.session.closed().await, Closed::Code(4005));
}

#[tokio::test(start_paused = true)]
async fn a_grant_admits_its_participant_once() {
    let harness = harness(100);
    harness.open(1).await;
    let grant = harness.grant(1);
    let mut client = harness.greet(&grant, false).await;
    let welcome = client.welcome().await;
    assert_eq!(welcome.participant_id, id(1).to_string());
    assert_eq!((welcome.max_publications, welcome.max_subscriptions), (4, 64));
    assert_eq!(welcome.max_datagram_bytes, 1_150);
    assert_eq!(welcome.muted.unwrap().mute_epoch, 1);
    refused(&harness, &grant).await;
    assert!(
        matches!(client.call(Request::Ping(Ping { nonce: 7 })).await, Event::Pong(pong) if pong.nonce == 7)
    );
}

#[tokio::test(start_paused = true)]
async fn a_forged_expired_or_foreign_grant_is_refused_like_any_other() {
    let harness = harness(100);
    harness.open(1).await;
    let good = harness.grant(1);
    let mut forged = harness.seal(&good).to_vec();
    *forged.last_mut().unwrap() ^= 1;
    let session = harness.dial().await.unwrap();
    is_refused(MediaClient::greet(session, forged.into(), false).await).await;
    for bad in [
        MediaGrant { handler_id: "mh-2".into(), ..harness.grant(1) },
        MediaGrant { issued_at_ms: good.issued_at_ms - 70_000, ..harness.grant(1) },
        MediaGrant { generation: 0, ..harness.grant(1) },
        MediaGrant { epoch: 0, ..harness.grant(1) },
        MediaGrant { participant_id: "bob".into(), ..harness.grant(1) },
        MediaGrant { grant_id: vec![1].into(), ..harness.grant(1) },
    ] {
        refused(&harness, &bad).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_newer_grant_replaces_the_session_and_an_older_one_does_not() {
    let harness = harness(100);
    harness.open(1).await;
    let first = harness.join(1).await;
    refused(&harness, &harness.grant(1)).await;
    harness.pass(Duration::from_millis(1)).await;
    let second = harness.join(1).await;
    assert_eq!(first.session.closed().await, Closed::Code(4001));
    let greater = MediaGrant { epoch: 2, issued_at_ms: 1, ..harness.grant(1) };
    let greater = MediaGrant { issued_at_ms: harness.grant(1).issued_at_ms - 1_000, ..greater };
    let mut third = harness.greet(&greater, false).await;
    third.welcome().await;
    assert_eq!(second.session.closed().await, Closed::Code(4001));
}

#[tokio::test(start_paused = true)]
async fn a_client_without_a_mask_waits_for_it() {
    let harness = harness(100);
    harness.register(1).await;
    let mut early = harness.greet(&harness.grant(1), false).await;
    harness.pass(Duration::from_secs(4)).await;
    harness.mute(1, 1, true, false).await;
    assert!(early.welcome().await.muted.unwrap().audio_muted);
    // Without a mask or a registration, the wait ends.
    let began = harness.now();
    refused(&harness, &harness.grant(2)).await;
    assert_eq!(harness.now().since(began), Duration::from_millis(15_500));
}

#[tokio::test(start_paused = true)]
async fn a_client_is_admitted_once_its_meeting_is_registered() {
    let harness = harness(100);
    let mut early = harness.greet(&harness.grant(1), false).await;
    harness.pass(Duration::from_secs(10)).await;
    harness.open(1).await;
    early.welcome().await;
}

#[tokio::test(start_paused = true)]
async fn silence_and_garbage_are_closed_within_five_seconds() {
    let harness = harness(100);
    harness.open(1).await;
    let began = harness.now();
    let silent = harness.dial().await.unwrap();
    assert_eq!(silent.closed().await, Closed::Code(4005));
    assert_eq!(harness.now().since(began).as_secs(), 5);
    let odd = harness.dial().await.unwrap();
    let (send, _receive) = odd.open_bi().await.unwrap();
    let request = MediaRequest { payload: Some(Request::Activate(Activate {})), seq: 1 };
    MessageWriter::new(send).send(&request).await.unwrap();
    assert_eq!(odd.closed().await, Closed::Code(4005));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_request_is_answered_and_harms_nothing() {
    let harness = harness(100);
    harness.open(1).await;
    let mut client = harness.join(1).await;
    let seq = client.send_empty().await;
    let answer = client.event(|event| match event {
        Event::Error(error) => Some(error.code()),
        _ => None,
    });
    assert_eq!((answer.await, seq), (ErrorCode::InvalidRequest, 2));
    client.publish(microphone(1)).await;
}

#[tokio::test(start_paused = true)]
async fn too_many_messages_are_refused() {
    let harness = harness(100);
    harness.open(1).await;
    let mut client = harness.join(1).await;
    let mut refused = 0;
    for nonce in 0..150 {
        if let Event::Error(error) = client.call(Request::Ping(Ping { nonce })).await {
            assert_eq!(error.code(), ErrorCode::RateLimited);
            refused += 1;
        }
    }
    assert_eq!(refused, 50, "a burst of 100, then 50 a second");
    harness.pass(Duration::from_secs(1)).await;
    assert!(matches!(client.call(Request::Ping(Ping { nonce: 1 })).await, Event::Pong(_)));
}

#[tokio::test(start_paused = true)]
async fn a_participant_that_left_is_closed_and_its_grants_are_refused() {
    let harness = harness(100);
    harness.open(2).await;
    let (kicked, left) = (harness.join(1).await, harness.join(2).await);
    harness.pass(Duration::from_millis(1)).await;
    assert!(harness.release_participant(1, 1, ReleaseReason::Kicked).await);
    assert!(harness.release_participant(2, 1, ReleaseReason::Left).await);
    assert_eq!(kicked.session.closed().await, Closed::Code(4004));
    assert_eq!(left.session.closed().await, Closed::Code(0));
    harness.mute(1, 1, false, false).await;
    refused(&harness, &harness.grant(1)).await;
    let mut back = harness.greet(&MediaGrant { epoch: 2, ..harness.grant(1) }, false).await;
    back.welcome().await;
}

#[tokio::test(start_paused = true)]
async fn a_meeting_that_ends_closes_its_sessions() {
    let harness = harness(100);
    harness.open(1).await;
    let client = harness.join(1).await;
    harness.release_meeting(1).await;
    assert_eq!(client.session.closed().await, Closed::Code(0));
    assert_eq!(harness.handler.meeting_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_draining_handler_says_so_first_and_closes_later() {
    let harness = harness(100);
    harness.open(1).await;
    let mut client = harness.join(1).await;
    let began = harness.now();
    harness.stop.cancel();
    let deadline = client.event(|event| match event {
        Event::Goaway(goaway) => Some(goaway.deadline_ms),
        _ => None,
    });
    assert_eq!(deadline.await, 5_000);
    assert_eq!(client.session.closed().await, Closed::Code(4003));
    assert_eq!(harness.now().since(began).as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_full_handler_refuses_the_next_session_until_one_ends() {
    let harness = harness(1);
    let first = harness.dial().await.unwrap();
    assert!(harness.dial().await.is_none());
    first.wire().cut();
    while harness.dial().await.is_none() {
        harness.pass(Duration::from_millis(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_address_cannot_take_all_places_before_it_is_admitted() {
    let harness = harness(10_000);
    let near = harness.dialer.clone().from("10.0.0.1:1".parse().unwrap());
    let connect = || tenure_meet_wire::transport::Connect {
        path: tenure_meet_mh::PATH.to_owned(),
        ..Default::default()
    };
    let mut open = Vec::new();
    for _ in 0..tenure_meet_mh::limits::PENDING_PER_ADDRESS {
        open.push(near.dial(connect()).await.unwrap());
    }
    assert!(near.dial(connect()).await.is_err());
    let far = harness.dialer.clone().from("10.0.0.2:1".parse().unwrap());
    assert!(far.dial(connect()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn rights_come_from_the_grant_and_the_seat() {
    let harness = harness(100);
    let observer = tenure_meet_wire::internal::MediaSeat { may_send_audio: false, ..seat(2) };
    harness.register_seats(1, vec![seat(1), observer]).await;
    let mut announcer = harness
        .greet(&MediaGrant { may_send_audio: false, may_receive: false, ..harness.grant(1) }, false)
        .await;
    announcer.welcome().await;
    assert_eq!(announcer.error(Request::Publish(microphone(1))).await, ErrorCode::Forbidden);
    let subscribe = Request::Subscribe(crate::client::watch(id(2)));
    assert_eq!(announcer.error(subscribe).await, ErrorCode::Forbidden);
    let mut observer = harness.join(2).await;
    assert_eq!(observer.error(Request::Publish(microphone(1))).await, ErrorCode::Forbidden);
}

//! Owners that are cut off from their store.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Clock, Generation, Revoke, RevokeReason, Store};
use tenure_meet_mc::MeetingKeys;
use tenure_meet_mc::actor::Assigned;
use tenure_meet_wire::jwt::Role;
use tenure_meet_wire::signaling::client_message::Payload as ClientPayload;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{ChatRequest, ErrorCode, HostMuteRequest, ServerMessage};
use tenure_meet_wire::transport::Closed;
use tenure_store::{Redis, TokioClock};
use tenure_testkit::RedisServer;
use tenure_testkit_meet::{FaultyStore, WriteFault};

use crate::actors::store;
use crate::fixture::meeting;
use crate::harness::{Client, Harness};

fn chat(text: &str) -> ClientPayload {
    ClientPayload::ChatRequest(ChatRequest { text: text.to_owned() })
}

/// What an answer says: accepted durably, accepted in memory, or the code of the refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reply {
    Durable,
    Volatile,
    Refused(ErrorCode),
}

fn reply(message: &ServerMessage, seq: u64) -> Option<Reply> {
    match &message.payload {
        Some(Payload::Accepted(_)) if message.seq == seq => {
            Some(if message.durable == Some(false) { Reply::Volatile } else { Reply::Durable })
        }
        Some(Payload::Error(error)) if message.seq == seq => Some(Reply::Refused(error.code())),
        _ => None,
    }
}

async fn ask(client: &mut Client, payload: ClientPayload) -> Reply {
    let seq = client.ask(payload).await;
    client.until(|message| reply(message, seq)).await
}

async fn pass(clock: &TokioClock, seconds: u64) {
    clock.sleep_until(clock.now() + Duration::from_secs(seconds)).await;
}

/// A controller on a store that can be made silent, and the store behind it.
fn cut_off() -> (Arc<TokioClock>, Arc<dyn Store>, Arc<FaultyStore>, Harness) {
    let (clock, inner) = store();
    let faulty = FaultyStore::new(inner.clone());
    let store: Arc<dyn Store> = faulty.clone();
    let harness = Harness::open(&store, "mc-1");
    (clock, inner, faulty, harness)
}

#[tokio::test(start_paused = true)]
async fn a_meeting_goes_on_after_its_store_was_away_however_long() {
    for seconds in [3, 7, 20, 600] {
        let (clock, inner, faulty, mut harness) = cut_off();
        let Assigned::Accepted { generation } = harness.assign().await else { panic!("not accepted") };
        let (mut ada, _) = harness.join("ada", Role::Host).await;
        assert_eq!(ask(&mut ada, chat("before")).await, Reply::Durable);
        faulty.set_silent(true);
        let began = clock.now();
        let during = ask(&mut ada, chat("during")).await;
        assert_eq!(during, Reply::Volatile, "{seconds} s");
        assert!(clock.now().since(began) < Duration::from_secs(3), "{seconds} s");
        clock.sleep_until(began + Duration::from_secs(seconds)).await;
        faulty.set_silent(false);
        while ask(&mut ada, chat("after")).await != Reply::Durable {
            pass(&clock, 1).await;
        }
        assert!(clock.now().since(began) < Duration::from_secs(seconds + 12), "{seconds} s");
        assert!(harness.controller.store_available());
        let held = harness.controller.held_generation(&meeting()).await.unwrap();
        assert_eq!(held > generation, seconds >= 20, "{seconds} s: expired leases are acquired anew");
        let log = inner.read_log(&MeetingKeys::new(&meeting()).log().unwrap(), 0, 1_000).await.unwrap();
        assert!(log.len() >= 4, "{seconds} s: joined, before, during, after");
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_owner_tells_its_clients_and_issues_no_grants() {
    let (_clock, _inner, faulty, mut harness) = cut_off();
    harness.assign().await;
    let (mut ada, _) = harness.join("ada", Role::Host).await;
    faulty.set_silent(true);
    ada.until(|message| matches!(message.payload, Some(Payload::Paused(_))).then_some(())).await;
    let request = ClientPayload::MediaGrantRequest(tenure_meet_wire::signaling::MediaGrantRequest::default());
    assert_eq!(ask(&mut ada, request).await, Reply::Refused(ErrorCode::Unavailable));
}

#[tokio::test(start_paused = true)]
async fn a_meeting_that_another_controller_took_meanwhile_closes_its_clients() {
    let (clock, inner, faulty, mut harness) = cut_off();
    harness.assign().await;
    let (mut ada, first) = harness.join("ada", Role::Host).await;
    ask(&mut ada, chat("before")).await;
    faulty.set_silent(true);
    pass(&clock, 20).await;
    let mut two = Harness::open(&inner, "mc-2");
    assert!(matches!(two.assign().await, Assigned::Accepted { .. }));
    faulty.set_silent(false);
    assert_eq!(ada.ended().await, Closed::Code(4002));
    let (_ada, back) = two.resume("ada", Role::Host, &first, 2).await;
    assert!(back.resumed);
}

#[tokio::test(start_paused = true)]
async fn requests_are_answered_within_three_seconds_also_with_a_write_in_flight() {
    let (clock, inner, faulty, mut harness) = cut_off();
    harness.assign().await;
    let (mut ada, seat) = harness.join("ada", Role::Host).await;
    let (mut bob, _) = harness.join("bob", Role::Participant).await;
    faulty.fail_all_writes(Some(WriteFault::Hangs));
    let mute = ClientPayload::HostMuteRequest(HostMuteRequest {
        participant_id: seat.participant_id.clone(),
        audio: true,
        video: false,
        reason: String::new(),
    });
    let began = clock.now();
    let (muted, chatted) = tokio::join!(ask(&mut ada, mute), ask(&mut bob, chat("hello?")));
    assert!(clock.now().since(began) <= Duration::from_secs(3), "{:?}", clock.now().since(began));
    assert_eq!(muted, Reply::Refused(ErrorCode::Unavailable));
    assert_eq!(chatted, Reply::Refused(ErrorCode::Unavailable), "nothing overtakes the write in doubt");
    faulty.fail_all_writes(None);
    // The write was in doubt: it lands, and all participants learn of it.
    let audio = |message: &ServerMessage| match &message.payload {
        Some(Payload::ParticipantMuteUpdate(update)) => Some(update.audio_host),
        _ => None,
    };
    assert!(bob.until(audio).await);
    while ask(&mut bob, chat("again")).await != Reply::Durable {
        pass(&clock, 1).await;
    }
    let log = inner.read_log(&MeetingKeys::new(&meeting()).log().unwrap(), 0, 100).await.unwrap();
    assert_eq!(log.len(), 4, "joined, joined, muted, again");
}

#[tokio::test(start_paused = true)]
async fn a_breaker_closes_again_although_no_meeting_asks() {
    let (clock, inner, faulty, mut harness) = cut_off();
    let Assigned::Accepted { generation } = harness.assign().await else { panic!("not accepted") };
    faulty.fail_all_writes(Some(WriteFault::Unavailable));
    for _ in 0..3 {
        let mut ada = harness.ask_to_join(harness.request("ada", Role::Host)).await;
        assert_eq!(ada.error().await.0, ErrorCode::Unavailable);
    }
    let (key, generation) =
        (MeetingKeys::new(&meeting()).lease().unwrap(), Generation::new(generation).unwrap());
    let delay = Some(Duration::ZERO);
    inner.revoke(Revoke { key, generation, delay, reason: RevokeReason::default() }).await.unwrap();
    while harness.controller.counts().await.meetings > 0 {
        pass(&clock, 1).await;
    }
    assert!(!harness.controller.store_available());
    faulty.fail_all_writes(None);
    pass(&clock, 2).await;
    assert!(harness.controller.store_available());
    assert!(matches!(harness.assign().await, Assigned::Accepted { .. }));
    let _seated = harness.join("ada", Role::Host).await;
}

/// Stops a real Redis for this long while a participant chats.
async fn stall(seconds: u64) {
    let server = RedisServer::start().unwrap();
    let store: Arc<dyn Store> =
        Arc::new(Redis::open(&format!("{}?quarantine_ms=0", server.url())).await.unwrap());
    let clock = store.clock();
    let mut harness = Harness::open(&store, "mc-1");
    harness.assign().await;
    let (mut ada, _) = harness.join("ada", Role::Host).await;
    assert_eq!(ask(&mut ada, chat("before")).await, Reply::Durable);
    server.pause().unwrap();
    let began = clock.now();
    let during = ask(&mut ada, chat("during")).await;
    assert_ne!(during, Reply::Durable);
    clock.sleep_until(began + Duration::from_secs(seconds)).await;
    server.resume().unwrap();
    while ask(&mut ada, chat("after")).await != Reply::Durable {
        clock.sleep_until(clock.now() + Duration::from_millis(200)).await;
    }
    while !harness.controller.store_available() {
        clock.sleep_until(clock.now() + Duration::from_millis(200)).await;
    }
    let (_bob, welcome) = harness.join("bob", Role::Participant).await;
    assert_eq!(welcome.existing_participants.len(), 1, "the same meeting");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_was_stopped_for_three_seconds_costs_no_seat() {
    stall(3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_was_stopped_for_seven_seconds_costs_no_seat() {
    stall(7).await;
}

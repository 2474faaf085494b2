//! Meetings whose store, owner or code fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tenure_lease::{Clock, Revoke, RevokeReason, Store};
use tenure_meet_mc::actor::{
    Assigned, Assignment, Exit, MediaHandlers, MuteOrder, MuteOutcome, ParticipantRelease, RegisterOutcome,
    Registration, Rejection, Replacement, ScriptedHandlers,
};
use tenure_meet_mc::meeting::{HandlerInfo, Settings};
use tenure_meet_mc::{LedgerError, MeetingKeys};
use tenure_meet_wire::MeetingId;
use tenure_meet_wire::jwt::Role;
use tenure_meet_wire::signaling::client_message::Payload as ClientPayload;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{ChatRequest, ErrorCode, HostMuteRequest, JoinResponse};
use tenure_meet_wire::transport::Closed;

use crate::actors::store;
use crate::fixture::{Mc, meeting};
use crate::harness::{Client, Harness};
use tenure_testkit_meet::{FaultyStore, WriteFault};

fn chat(text: &str) -> ClientPayload {
    ClientPayload::ChatRequest(ChatRequest { text: text.to_owned() })
}

#[tokio::test(start_paused = true)]
async fn ten_concurrent_assignments_share_one_reign_and_another_controller_learns_the_owner() {
    let (_clock, store) = store();
    let (one, two) = (Harness::open(&store, "mc-1"), Harness::open(&store, "mc-2"));
    let assigned = futures_util::future::join_all((0..10).map(|_| one.assign())).await;
    assert!(matches!(assigned[0], Assigned::Accepted { .. }));
    assert!(assigned.iter().all(|other| *other == assigned[0]));
    let owner = Some("mc-1".to_owned());
    assert_eq!(two.assign().await, Assigned::Rejected(Rejection::AlreadyOwned { owner }));
    assert_eq!(one.controller.counts().await.meetings, 1);
}

#[tokio::test(start_paused = true)]
async fn a_full_controller_accepts_again_when_a_meeting_ends() {
    let (clock, store) = store();
    let harness = Harness::with(&store, "mc-1", Arc::new(ScriptedHandlers::SILENT), 1);
    harness.assign().await;
    let other = Assignment {
        meeting: MeetingId::parse("other").unwrap(),
        settings: Settings::default(),
        handlers: Vec::new(),
        instead_of: None,
    };
    assert_eq!(harness.controller.assign(other.clone()).await, Assigned::Rejected(Rejection::AtCapacity));
    // Empty for a minute: the meeting ends and frees its capacity.
    clock.sleep_until(clock.now() + Duration::from_secs(61)).await;
    assert!(matches!(harness.controller.assign(other).await, Assigned::Accepted { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_lost_the_meeting_closes_its_clients_and_they_resume_at_the_next_owner() {
    let (_clock, store) = store();
    let (mut one, mut two) = (Harness::open(&store, "mc-1"), Harness::open(&store, "mc-2"));
    let Assigned::Accepted { generation } = one.assign().await else { panic!("not accepted") };
    let (mut ada, first) = one.join("ada", Role::Host).await;
    ada.ask(chat("before")).await;
    seen(&mut ada, "before").await;
    let key = MeetingKeys::new(&meeting()).lease().unwrap();
    let generation = tenure_lease::Generation::new(generation).unwrap();
    let delay = Some(Duration::ZERO);
    store.revoke(Revoke { key, generation, delay, reason: RevokeReason::default() }).await.unwrap();
    ada.ask(chat("too late")).await;
    assert_eq!(ada.ended().await, Closed::Code(4002));
    assert!(matches!(two.assign().await, Assigned::Accepted { .. }));
    let (mut ada, back) = two.resume("ada", Role::Host, &first, 2).await;
    assert!(back.resumed && back.replay && back.participant_id == first.participant_id);
    ada.ask(chat("after")).await;
    let seq = seen(&mut ada, "after").await;
    assert_eq!(seq, 4, "joined, before, back, after: no gap, and nothing of the old owner");
}

#[tokio::test(start_paused = true)]
async fn a_replaced_owner_is_fenced_out_at_its_next_write_and_its_clients_go_on_at_the_next() {
    let (_clock, store) = store();
    let (mut one, mut two) = (Harness::open(&store, "mc-1"), Harness::open(&store, "mc-2"));
    let Assigned::Accepted { generation } = one.assign().await else { panic!("not accepted") };
    let (mut ada, first) = one.join("ada", Role::Host).await;
    ada.ask(chat("before")).await;
    seen(&mut ada, "before").await;
    // The first owner lives and its lease has not expired.
    let instead_of = tenure_lease::Generation::new(generation).ok();
    let handlers = vec![crate::harness::handler("mh-1", "inproc:mh-1")];
    let taken = Assignment { meeting: meeting(), settings: Settings::default(), handlers, instead_of };
    assert!(matches!(two.controller.assign(taken).await, Assigned::Accepted { .. }));
    ada.ask(chat("too late")).await;
    assert_eq!(ada.ended().await, Closed::Code(4002));
    let (mut ada, back) = two.resume("ada", Role::Host, &first, 2).await;
    assert!(back.resumed && back.replay && back.participant_id == first.participant_id);
    ada.ask(chat("after")).await;
    assert_eq!(seen(&mut ada, "after").await, 4, "joined, before, back, after: nothing of the old owner");
}

async fn seen(client: &mut Client, text: &str) -> u64 {
    let seen = client.until(|message| match &message.payload {
        Some(Payload::ChatMessage(chat)) if chat.text == text => Some(message.event_seq),
        _ => None,
    });
    seen.await
}

#[tokio::test(start_paused = true)]
async fn a_graceful_shutdown_closes_clients_releases_the_lease_and_loses_nothing() {
    let (_clock, store) = store();
    let mut one = Harness::open(&store, "mc-1");
    one.assign().await;
    let (mut ada, first) = one.join("ada", Role::Host).await;
    ada.ask(chat("last words")).await;
    seen(&mut ada, "last words").await;
    assert_eq!(one.running.shut_down().await, Exit::Clean(()));
    assert_eq!(ada.ended().await, Closed::Code(4003));
    let mut two = Harness::open(&store, "mc-2");
    assert!(matches!(two.assign().await, Assigned::Accepted { .. }), "at once");
    let (mut ada, back) = two.resume("ada", Role::Host, &first, 1).await;
    assert!(back.resumed && back.replay);
    assert_eq!(seen(&mut ada, "last words").await, 2);
}

#[tokio::test(start_paused = true)]
async fn without_the_store_joins_fail_and_chat_continues_in_memory() {
    let (_clock, inner) = store();
    let faulty = FaultyStore::new(inner.clone());
    let store: Arc<dyn Store> = faulty.clone();
    let mut harness = Harness::open(&store, "mc-1");
    harness.assign().await;
    let (mut ada, _) = harness.join("ada", Role::Host).await;
    faulty.fail_all_writes(Some(WriteFault::Unavailable));
    for _ in 0..3 {
        let mut bob = harness.ask_to_join(harness.request("bob", Role::Participant)).await;
        assert_eq!(bob.error().await.0, ErrorCode::Unavailable);
    }
    ada.ask(chat("is anybody there?")).await;
    let durable =
        ada.until(|m| matches!(m.payload, Some(Payload::ChatMessage(_))).then_some(m.durable)).await;
    assert_eq!(durable, Some(false));
    faulty.fail_all_writes(None);
    // The store recovers: queued changes are persisted, and bob joins.
    let welcome = loop {
        let mut bob = harness.ask_to_join(harness.request("bob", Role::Participant)).await;
        match bob.next().await.payload {
            Some(Payload::JoinResponse(answer)) => break answer,
            Some(Payload::Error(error)) => assert_eq!(error.code(), ErrorCode::Unavailable),
            other => panic!("{other:?}"),
        }
        tokio::time::advance(Duration::from_secs(1)).await;
    };
    assert_eq!(welcome.event_seq, 3);
    let log = tenure_lease::Key::new("meeting:abc:log").unwrap();
    assert_eq!(inner.read_log(&log, 0, 10).await.unwrap().len(), 3);
}

/// Media handlers whose client panics when a mute is enforced.
#[derive(Default)]
struct Poison(AtomicU32);

impl MediaHandlers for Poison {
    fn register(&self, registration: Registration) -> BoxFuture<'static, Vec<RegisterOutcome>> {
        ScriptedHandlers::ACCEPTING.register(registration)
    }

    fn enforce_mute(&self, order: MuteOrder) -> BoxFuture<'static, Vec<MuteOutcome>> {
        if !order.mutes.audio_host {
            return ScriptedHandlers::ACCEPTING.enforce_mute(order);
        }
        panic!("poisoned for the {}. time", self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn release_participant(&self, release: ParticipantRelease) -> BoxFuture<'static, ()> {
        ScriptedHandlers::ACCEPTING.release_participant(release)
    }

    fn replace(&self, replacement: Replacement) -> BoxFuture<'static, Option<Vec<HandlerInfo>>> {
        ScriptedHandlers::ACCEPTING.replace(replacement)
    }

    fn release(
        &self,
        meeting: &MeetingId,
        generation: u64,
        handlers: &[HandlerInfo],
    ) -> BoxFuture<'static, ()> {
        ScriptedHandlers::ACCEPTING.release(meeting, generation, handlers)
    }
}

fn mute(seat: &JoinResponse) -> ClientPayload {
    let participant_id = seat.participant_id.clone();
    ClientPayload::HostMuteRequest(HostMuteRequest {
        participant_id,
        audio: true,
        video: false,
        reason: String::new(),
    })
}

#[tokio::test(start_paused = true)]
async fn a_meeting_survives_one_panic_and_ends_at_the_second() {
    let (_clock, store) = store();
    let mut harness = Harness::with(&store, "mc-1", Arc::new(Poison::default()), 10);
    harness.assign().await;
    let (mut ada, seat) = harness.join("ada", Role::Host).await;
    ada.ask(mute(&seat)).await;
    ada.ask(chat("alive")).await;
    seen(&mut ada, "alive").await;
    let (_bob, welcome) = harness.join("bob", Role::Participant).await;
    assert!(
        welcome.existing_participants[0].mute.as_ref().unwrap().audio_host,
        "the mute was written before the panic"
    );
    ada.ask(mute(&seat)).await;
    assert_eq!(ada.ended().await, Closed::Code(4003));
    // The lease is free: the next owner restores everything.
    let next = Mc::take(&store, "mc-2").await;
    assert_eq!(next.map(|mc| mc.state.seats.len()).map_err(|error: LedgerError| error.to_string()), Ok(2));
}

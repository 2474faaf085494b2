//! Meetings whose store, owner or code fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use lease::{Clock, Motive, Revoke, Store};
use meet_mc::actor::{Assigned, Assignment, Exit, MediaPort, MuteOrder, Rejection};
use meet_mc::meeting::{Handler, Settings};
use meet_mc::{Keys, LedgerError};
use meet_wire::MeetingId;
use meet_wire::jwt::Role;
use meet_wire::signaling::client_message::Payload as Ask;
use meet_wire::signaling::server_message::Payload;
use meet_wire::signaling::{ChatRequest, ErrorCode, HostMuteRequest, JoinResponse};
use meet_wire::transport::Closed;

use crate::actors::store;
use crate::club::{Client, Club};
use crate::house::{Mc, meeting};
use crate::mishap::{Fate, Mishap};

fn chat(text: &str) -> Ask {
    Ask::ChatRequest(ChatRequest { text: text.to_owned() })
}

#[tokio::test(start_paused = true)]
async fn ten_who_assign_at_once_get_one_reign_and_another_controller_is_told_who_has_it() {
    let (_clock, store) = store();
    let (one, two) = (Club::open(&store, "mc-1"), Club::open(&store, "mc-2"));
    let assigned = futures_util::future::join_all((0..10).map(|_| one.assign())).await;
    assert!(matches!(assigned[0], Assigned::Accepted { .. }));
    assert!(assigned.iter().all(|other| *other == assigned[0]));
    let owner = Some("mc-1".to_owned());
    assert_eq!(two.assign().await, Assigned::Rejected(Rejection::AlreadyOwned { owner }));
    assert_eq!(one.controller.counts().await.meetings, 1);
}

#[tokio::test(start_paused = true)]
async fn a_full_controller_takes_no_more_and_has_room_again_when_a_meeting_ends() {
    let (clock, store) = store();
    let club = Club::with(&store, "mc-1", Arc::new(meet_mc::actor::NoHandlers), 1);
    club.assign().await;
    let other = Assignment {
        meeting: MeetingId::parse("other").unwrap(),
        settings: Settings::default(),
        handlers: Vec::new(),
    };
    assert_eq!(club.controller.assign(other.clone()).await, Assigned::Rejected(Rejection::AtCapacity));
    // Nobody comes for a minute: it ends and gives its place back.
    clock.sleep_until(clock.now() + Duration::from_secs(61)).await;
    assert!(matches!(club.controller.assign(other).await, Assigned::Accepted { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_lost_the_meeting_closes_its_clients_and_they_resume_at_the_next_owner() {
    let (_clock, store) = store();
    let (mut one, mut two) = (Club::open(&store, "mc-1"), Club::open(&store, "mc-2"));
    let Assigned::Accepted { generation } = one.assign().await else { panic!("not accepted") };
    let (mut ada, first) = one.join("ada", Role::Host).await;
    ada.ask(chat("before")).await;
    seen(&mut ada, "before").await;
    let key = Keys::new(&meeting()).lease().unwrap();
    let generation = lease::Generation::new(generation).unwrap();
    let delay = Some(Duration::ZERO);
    store.revoke(Revoke { key, generation, delay, reason: Motive::default() }).await.unwrap();
    ada.ask(chat("too late")).await;
    assert_eq!(ada.ended().await, Closed::Code(4002));
    assert!(matches!(two.assign().await, Assigned::Accepted { .. }));
    let (mut ada, back) = two.resume("ada", Role::Host, &first, 2).await;
    assert!(back.resumed && back.replay && back.participant_id == first.participant_id);
    ada.ask(chat("after")).await;
    let seq = seen(&mut ada, "after").await;
    assert_eq!(seq, 4, "joined, before, back, after: no gap, and nothing of the old owner");
}

async fn seen(client: &mut Client, text: &str) -> u64 {
    let seen = client.until(|message| match &message.payload {
        Some(Payload::ChatMessage(chat)) if chat.text == text => Some(message.event_seq),
        _ => None,
    });
    seen.await
}

#[tokio::test(start_paused = true)]
async fn a_shut_down_controller_tells_its_clients_gives_the_lease_back_and_loses_nothing() {
    let (_clock, store) = store();
    let mut one = Club::open(&store, "mc-1");
    one.assign().await;
    let (mut ada, first) = one.join("ada", Role::Host).await;
    ada.ask(chat("last words")).await;
    seen(&mut ada, "last words").await;
    assert_eq!(one.running.shut_down().await, Exit::Clean(()));
    assert_eq!(ada.ended().await, Closed::Code(4003));
    let mut two = Club::open(&store, "mc-2");
    assert!(matches!(two.assign().await, Assigned::Accepted { .. }), "at once");
    let (mut ada, back) = two.resume("ada", Role::Host, &first, 1).await;
    assert!(back.resumed && back.replay);
    assert_eq!(seen(&mut ada, "last words").await, 2);
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_nobody_joins_and_chat_goes_on_in_memory() {
    let (_clock, inner) = store();
    let mishap = Mishap::new(inner.clone());
    let store: Arc<dyn Store> = mishap.clone();
    let mut club = Club::open(&store, "mc-1");
    club.assign().await;
    let (mut ada, _) = club.join("ada", Role::Host).await;
    mishap.always(Some(Fate::Away));
    for _ in 0..3 {
        let mut bob = club.ask_to_join(club.request("bob", Role::Participant)).await;
        assert_eq!(bob.error().await.0, ErrorCode::Unavailable);
    }
    ada.ask(chat("is anybody there?")).await;
    let durable =
        ada.until(|m| matches!(m.payload, Some(Payload::ChatMessage(_))).then_some(m.durable)).await;
    assert_eq!(durable, Some(false));
    mishap.always(None);
    // It comes back by itself: what was only in memory is written, and bob gets in.
    let welcome = loop {
        let mut bob = club.ask_to_join(club.request("bob", Role::Participant)).await;
        match bob.next().await.payload {
            Some(Payload::JoinResponse(answer)) => break answer,
            Some(Payload::Error(error)) => assert_eq!(error.code(), ErrorCode::Unavailable),
            other => panic!("{other:?}"),
        }
        tokio::time::advance(Duration::from_secs(1)).await;
    };
    assert_eq!(welcome.event_seq, 3);
    let log = lease::Key::new("meeting:abc:log").unwrap();
    assert_eq!(inner.read_log(&log, 0, 10).await.unwrap().len(), 3);
}

/// A port that panics when it is asked to enforce.
#[derive(Default)]
struct Poison(AtomicU32);

impl MediaPort for Poison {
    fn register(&self, _: &MeetingId, _: u64, _: &[Handler]) -> BoxFuture<'static, Option<Vec<Handler>>> {
        Box::pin(std::future::ready(None))
    }

    fn release(&self, _: &MeetingId, _: u64, _: &[Handler]) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn enforce(&self, _: MuteOrder) -> BoxFuture<'static, Vec<String>> {
        panic!("poisoned for the {}. time", self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

fn mute(seat: &JoinResponse) -> Ask {
    let participant_id = seat.participant_id.clone();
    Ask::HostMuteRequest(HostMuteRequest { participant_id, audio: true, video: false, reason: String::new() })
}

#[tokio::test(start_paused = true)]
async fn a_meeting_survives_one_panic_from_the_store_and_gives_up_at_the_second() {
    let (_clock, store) = store();
    let mut club = Club::with(&store, "mc-1", Arc::new(Poison::default()), 10);
    club.assign().await;
    let (mut ada, seat) = club.join("ada", Role::Host).await;
    ada.ask(mute(&seat)).await;
    ada.ask(chat("alive")).await;
    seen(&mut ada, "alive").await;
    let (_bob, welcome) = club.join("bob", Role::Participant).await;
    assert!(
        welcome.existing_participants[0].mute.as_ref().unwrap().audio_host,
        "the mute was written before the panic"
    );
    ada.ask(mute(&seat)).await;
    assert_eq!(ada.ended().await, Closed::Code(4003));
    // The lease is free: the next owner has everything.
    let next = Mc::take(&store, "mc-2").await;
    assert_eq!(next.map(|mc| mc.state.seats.len()).map_err(|error: LedgerError| error.to_string()), Ok(2));
}

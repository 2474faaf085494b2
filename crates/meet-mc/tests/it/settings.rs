//! Settings that change while a meeting runs.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Clock, Record, Store};
use tenure_meet_mc::MeetingKeys;
use tenure_meet_mc::actor::{Assigned, Rejection};
use tenure_meet_mc::meeting::Settings;
use tenure_meet_wire::jwt::Role;
use tenure_meet_wire::signaling::client_message::Payload as ClientPayload;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{ChatRequest, ErrorCode, JoinRequest};

use crate::actors::store;
use crate::fixture::meeting;
use crate::harness::{Client, Harness};
use tenure_testkit_meet::{FaultyStore, WriteFault};

fn settings(max_participants: u32, allow_guests: bool) -> Settings {
    Settings { max_participants, allow_guests, ..Settings::default() }
}

fn generation(assigned: &Assigned) -> u64 {
    match assigned {
        Assigned::Accepted { generation } => *generation,
        Assigned::Rejected(why) => panic!("{why:?}"),
    }
}

/// The refusal of a join; `None` if it succeeds.
async fn refusal(harness: &mut Harness, request: JoinRequest) -> Result<Client, ErrorCode> {
    let mut client = harness.ask_to_join(request).await;
    match client.next().await.payload {
        Some(Payload::JoinResponse(_)) => Ok(client),
        Some(Payload::Error(error)) => Err(error.code()),
        other => panic!("{other:?}"),
    }
}

async fn knock(harness: &mut Harness, user: &str) -> Result<Client, ErrorCode> {
    refusal(harness, harness.request(user, Role::Participant)).await
}

async fn knock_as_guest(harness: &mut Harness, user: &str) -> Result<Client, ErrorCode> {
    refusal(harness, harness.guest(user)).await
}

async fn row(store: &Arc<dyn Store>) -> (Record, serde_json::Value) {
    let record = store.get(&MeetingKeys::new(&meeting()).state().unwrap()).await.unwrap().unwrap();
    let row = serde_json::from_slice(&record.value).unwrap();
    (record, row)
}

#[tokio::test(start_paused = true)]
async fn new_settings_apply_to_the_next_join_and_keep_seats() {
    let (_clock, store) = store();
    let mut harness = Harness::open(&store, "mc-1");
    let first = harness.assign_with(settings(2, true)).await;
    let (mut ada, _) = harness.join("ada", Role::Host).await;
    let mut gus = knock_as_guest(&mut harness, "gus").await.unwrap();
    assert_eq!(knock(&mut harness, "cyd").await.err(), Some(ErrorCode::CapacityExceeded));

    assert_eq!(generation(&harness.assign_with(settings(4, false)).await), generation(&first));
    assert_eq!(knock_as_guest(&mut harness, "gil").await.err(), Some(ErrorCode::Forbidden));
    let _cyd = knock(&mut harness, "cyd").await.unwrap();

    assert_eq!(generation(&harness.assign_with(settings(2, false)).await), generation(&first));
    assert_eq!(knock(&mut harness, "dan").await.err(), Some(ErrorCode::CapacityExceeded));
    assert_eq!(harness.controller.counts().await.participants, 3, "seats are kept");
    gus.ask(ClientPayload::ChatRequest(ChatRequest { text: "still here".to_owned() })).await;
    let heard = ada.until(|message| match &message.payload {
        Some(Payload::ChatMessage(chat)) => Some((message.event_seq, chat.text.clone())),
        _ => None,
    });
    assert_eq!(heard.await, (4, "still here".to_owned()), "a change of settings is no event");
}

#[tokio::test(start_paused = true)]
async fn accepted_settings_are_persisted_and_equal_ones_write_nothing() {
    let (_clock, store) = store();
    let harness = Harness::open(&store, "mc-1");
    harness.assign_with(settings(5, true)).await;
    let (before, _) = row(&store).await;
    generation(&harness.assign_with(settings(5, true)).await);
    assert_eq!(row(&store).await.0.revision, before.revision);
    let short = Settings { grace: Duration::from_secs(1), ..settings(7, false) };
    generation(&harness.assign_with(short).await);
    let (after, row) = row(&store).await;
    assert_ne!(after.revision, before.revision);
    assert_eq!((&row["max_participants"], &row["allow_guests"]), (&7.into(), &false.into()));
    assert_eq!(row["grace_ms"], 30_000, "grace is the controller's");
    assert_eq!(row["handlers"][0]["id"], "mh-1");
}

#[tokio::test(start_paused = true)]
async fn settings_that_are_not_persisted_are_rejected() {
    let (clock, inner) = store();
    let faulty = FaultyStore::new(inner);
    let store: Arc<dyn Store> = faulty.clone();
    let mut harness = Harness::open(&store, "mc-1");
    harness.assign_with(settings(1, true)).await;
    harness.join("ada", Role::Host).await;
    faulty.fail_all_writes(Some(WriteFault::Unavailable));
    let refused = harness.assign_with(settings(2, true)).await;
    assert_eq!(refused, Assigned::Rejected(Rejection::Unhealthy));
    generation(&harness.assign_with(settings(1, true)).await);
    faulty.fail_all_writes(None);
    clock.sleep_until(clock.now() + Duration::from_secs(6)).await;
    assert_eq!(knock(&mut harness, "bob").await.err(), Some(ErrorCode::CapacityExceeded));
    generation(&harness.assign_with(settings(2, true)).await);
    knock(&mut harness, "bob").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn settings_whose_write_reply_is_lost_are_accepted_once_known() {
    let (_clock, inner) = store();
    let faulty = FaultyStore::new(inner.clone());
    let store: Arc<dyn Store> = faulty.clone();
    let harness = Harness::open(&store, "mc-1");
    harness.assign_with(settings(5, true)).await;
    faulty.fail_next_writes(&[WriteFault::ReplyLost, WriteFault::Unavailable]);
    generation(&harness.assign_with(settings(6, true)).await);
    assert_eq!((faulty.remaining_faults(), &row(&inner).await.1["max_participants"]), (0, &6.into()));
}

#[tokio::test(start_paused = true)]
async fn a_hanging_store_does_not_block_settings_forever() {
    let (clock, inner) = store();
    let faulty = FaultyStore::new(inner);
    let store: Arc<dyn Store> = faulty.clone();
    let harness = Harness::open(&store, "mc-1");
    harness.assign_with(settings(5, true)).await;
    faulty.fail_all_writes(Some(WriteFault::Hangs));
    let began = clock.now();
    let refused = harness.assign_with(settings(6, true)).await;
    assert_eq!(refused, Assigned::Rejected(Rejection::Unhealthy));
    assert!(clock.now().since(began) <= tenure_meet_mc::actor::limits::SETTINGS);
}

#[tokio::test(start_paused = true)]
async fn of_two_concurrent_assignments_the_later_settings_are_adopted_too() {
    let (_clock, store) = store();
    let mut harness = Harness::open(&store, "mc-1");
    let (one, two) =
        tokio::join!(harness.assign_with(settings(1, true)), harness.assign_with(settings(2, false)));
    assert_eq!(generation(&one), generation(&two));
    harness.join("ada", Role::Host).await;
    assert_eq!(knock_as_guest(&mut harness, "gus").await.err(), Some(ErrorCode::Forbidden));
    knock(&mut harness, "bob").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_next_owner_uses_the_settings_of_its_assignment() {
    let (_clock, store) = store();
    let mut one = Harness::open(&store, "mc-1");
    one.assign_with(settings(1, true)).await;
    generation(&one.assign_with(settings(2, true)).await);
    one.join("ada", Role::Host).await;
    one.running.shut_down().await;
    // The record changed while the last owner was unreachable.
    let mut two = Harness::open(&store, "mc-2");
    two.assign_with(settings(3, false)).await;
    assert_eq!(two.controller.counts().await.participants, 1, "a seat is kept");
    assert_eq!(knock_as_guest(&mut two, "gus").await.err(), Some(ErrorCode::Forbidden));
    knock(&mut two, "bob").await.unwrap();
    knock(&mut two, "cyd").await.unwrap();
    assert_eq!(knock(&mut two, "dan").await.err(), Some(ErrorCode::CapacityExceeded));
    two.running.shut_down().await;
    // The same settings apply to the next owner as well.
    let mut three = Harness::open(&store, "mc-3");
    three.assign_with(settings(3, false)).await;
    assert_eq!(knock_as_guest(&mut three, "gus").await.err(), Some(ErrorCode::Forbidden));
    assert_eq!(knock(&mut three, "dan").await.err(), Some(ErrorCode::CapacityExceeded));
}

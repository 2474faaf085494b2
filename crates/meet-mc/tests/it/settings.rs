//! Settings that change while a meeting runs.

use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Record, Store};
use meet_mc::Keys;
use meet_mc::actor::{Assigned, Rejection};
use meet_mc::meeting::Settings;
use meet_wire::jwt::Role;
use meet_wire::signaling::client_message::Payload as Ask;
use meet_wire::signaling::server_message::Payload;
use meet_wire::signaling::{ChatRequest, ErrorCode, JoinRequest};

use crate::actors::store;
use crate::club::{Client, Club};
use crate::house::meeting;
use crate::mishap::{Fate, Mishap};

fn settings(max_participants: u32, allow_guests: bool) -> Settings {
    Settings { max_participants, allow_guests, ..Settings::default() }
}

fn generation(assigned: &Assigned) -> u64 {
    match assigned {
        Assigned::Accepted { generation } => *generation,
        Assigned::Rejected(why) => panic!("{why:?}"),
    }
}

/// What is said to somebody who wants to join; none is a welcome.
async fn refusal(club: &mut Club, request: JoinRequest) -> Result<Client, ErrorCode> {
    let mut client = club.ask_to_join(request).await;
    match client.next().await.payload {
        Some(Payload::JoinResponse(_)) => Ok(client),
        Some(Payload::Error(error)) => Err(error.code()),
        other => panic!("{other:?}"),
    }
}

async fn knock(club: &mut Club, user: &str) -> Result<Client, ErrorCode> {
    refusal(club, club.request(user, Role::Participant)).await
}

async fn knock_as_guest(club: &mut Club, user: &str) -> Result<Client, ErrorCode> {
    refusal(club, club.guest(user)).await
}

async fn row(store: &Arc<dyn Store>) -> (Record, serde_json::Value) {
    let record = store.get(&Keys::new(&meeting()).state().unwrap()).await.unwrap().unwrap();
    let row = serde_json::from_slice(&record.value).unwrap();
    (record, row)
}

#[tokio::test(start_paused = true)]
async fn the_next_join_is_judged_by_settings_that_changed_and_nobody_loses_a_seat() {
    let (_clock, store) = store();
    let mut club = Club::open(&store, "mc-1");
    let first = club.assign_with(settings(2, true)).await;
    let (mut ada, _) = club.join("ada", Role::Host).await;
    let mut gus = knock_as_guest(&mut club, "gus").await.unwrap();
    assert_eq!(knock(&mut club, "cyd").await.err(), Some(ErrorCode::CapacityExceeded));

    assert_eq!(generation(&club.assign_with(settings(4, false)).await), generation(&first));
    assert_eq!(knock_as_guest(&mut club, "gil").await.err(), Some(ErrorCode::Forbidden));
    let _cyd = knock(&mut club, "cyd").await.unwrap();

    assert_eq!(generation(&club.assign_with(settings(2, false)).await), generation(&first));
    assert_eq!(knock(&mut club, "dan").await.err(), Some(ErrorCode::CapacityExceeded));
    assert_eq!(club.controller.counts().await.participants, 3, "who is there stays");
    gus.ask(Ask::ChatRequest(ChatRequest { text: "still here".to_owned() })).await;
    let heard = ada.until(|message| match &message.payload {
        Some(Payload::ChatMessage(chat)) => Some((message.event_seq, chat.text.clone())),
        _ => None,
    });
    assert_eq!(heard.await, (4, "still here".to_owned()), "a change of settings is no event");
}

#[tokio::test(start_paused = true)]
async fn accepted_says_that_they_are_written_and_the_same_again_writes_nothing() {
    let (_clock, store) = store();
    let club = Club::open(&store, "mc-1");
    club.assign_with(settings(5, true)).await;
    let (before, _) = row(&store).await;
    generation(&club.assign_with(settings(5, true)).await);
    assert_eq!(row(&store).await.0.revision, before.revision);
    let short = Settings { grace: Duration::from_secs(1), ..settings(7, false) };
    generation(&club.assign_with(short).await);
    let (after, row) = row(&store).await;
    assert_ne!(after.revision, before.revision);
    assert_eq!((&row["max_participants"], &row["allow_guests"]), (&7.into(), &false.into()));
    assert_eq!(row["grace_ms"], 30_000, "grace is the controller's");
    assert_eq!(row["handlers"][0]["id"], "mh-1");
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_written_does_not_hold_and_is_not_accepted() {
    let (clock, inner) = store();
    let mishap = Mishap::new(inner);
    let store: Arc<dyn Store> = mishap.clone();
    let mut club = Club::open(&store, "mc-1");
    club.assign_with(settings(1, true)).await;
    club.join("ada", Role::Host).await;
    mishap.always(Some(Fate::Away));
    let refused = club.assign_with(settings(2, true)).await;
    assert_eq!(refused, Assigned::Rejected(Rejection::Unhealthy));
    generation(&club.assign_with(settings(1, true)).await);
    mishap.always(None);
    clock.sleep_until(clock.now() + Duration::from_secs(6)).await;
    assert_eq!(knock(&mut club, "bob").await.err(), Some(ErrorCode::CapacityExceeded));
    generation(&club.assign_with(settings(2, true)).await);
    knock(&mut club, "bob").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_write_of_settings_whose_answer_got_lost_is_accepted_once_it_is_known() {
    let (_clock, inner) = store();
    let mishap = Mishap::new(inner.clone());
    let store: Arc<dyn Store> = mishap.clone();
    let club = Club::open(&store, "mc-1");
    club.assign_with(settings(5, true)).await;
    mishap.next(&[Fate::AnswerLost, Fate::Away]);
    generation(&club.assign_with(settings(6, true)).await);
    assert_eq!((mishap.left(), &row(&inner).await.1["max_participants"]), (0, &6.into()));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_leaves_nobody_waiting_for_settings() {
    let (clock, inner) = store();
    let mishap = Mishap::new(inner);
    let store: Arc<dyn Store> = mishap.clone();
    let club = Club::open(&store, "mc-1");
    club.assign_with(settings(5, true)).await;
    mishap.always(Some(Fate::Hangs));
    let began = clock.now();
    let refused = club.assign_with(settings(6, true)).await;
    assert_eq!(refused, Assigned::Rejected(Rejection::Unhealthy));
    assert!(clock.now().since(began) <= meet_mc::actor::limits::SETTINGS);
}

#[tokio::test(start_paused = true)]
async fn of_two_who_assign_at_once_the_later_one_has_its_settings_taken_over_too() {
    let (_clock, store) = store();
    let mut club = Club::open(&store, "mc-1");
    let (one, two) = tokio::join!(club.assign_with(settings(1, true)), club.assign_with(settings(2, false)));
    assert_eq!(generation(&one), generation(&two));
    club.join("ada", Role::Host).await;
    assert_eq!(knock_as_guest(&mut club, "gus").await.err(), Some(ErrorCode::Forbidden));
    knock(&mut club, "bob").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_next_owner_has_the_settings_that_it_is_assigned_with_and_not_older_ones_of_the_row() {
    let (_clock, store) = store();
    let mut one = Club::open(&store, "mc-1");
    one.assign_with(settings(1, true)).await;
    generation(&one.assign_with(settings(2, true)).await);
    one.join("ada", Role::Host).await;
    one.running.shut_down().await;
    // What GC's record said already when the last owner could not be told.
    let mut two = Club::open(&store, "mc-2");
    two.assign_with(settings(3, false)).await;
    assert_eq!(two.controller.counts().await.participants, 1, "a seat is kept");
    assert_eq!(knock_as_guest(&mut two, "gus").await.err(), Some(ErrorCode::Forbidden));
    knock(&mut two, "bob").await.unwrap();
    knock(&mut two, "cyd").await.unwrap();
    assert_eq!(knock(&mut two, "dan").await.err(), Some(ErrorCode::CapacityExceeded));
    two.running.shut_down().await;
    // And with the same: they hold for the one after as well.
    let mut three = Club::open(&store, "mc-3");
    three.assign_with(settings(3, false)).await;
    assert_eq!(knock_as_guest(&mut three, "gus").await.err(), Some(ErrorCode::Forbidden));
    assert_eq!(knock(&mut three, "dan").await.err(), Some(ErrorCode::CapacityExceeded));
}

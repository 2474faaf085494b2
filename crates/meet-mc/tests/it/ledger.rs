//! The ledger on the memory engine, under virtual time.

use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Key, Motive, Revoke, Store};
use lease_store::{Local, TokioClock};
use meet_mc::meeting::{Event, Presence, Request, Role, Settings};
use meet_mc::{Ledger, LedgerError};

use crate::house::{Mc, desk, hold, meeting};
use crate::mishap::{Fate, Mishap};

fn engine() -> (Arc<TokioClock>, Arc<dyn Store>) {
    let clock = Arc::new(TokioClock::default());
    (clock.clone(), Arc::new(Local::memory_on(clock)))
}

async fn text(store: &Arc<dyn Store>, key: &str) -> Option<String> {
    let record = store.get(&Key::new(key).unwrap()).await.unwrap()?;
    Some(String::from_utf8(record.value.to_vec()).unwrap())
}

async fn log(store: &Arc<dyn Store>) -> Vec<u64> {
    let entries = store.read_log(&Key::new("meeting:abc:log").unwrap(), 0, 1_000).await.unwrap();
    entries.iter().map(|entry| entry.seq).collect()
}

#[tokio::test(start_paused = true)]
async fn the_next_owner_finds_every_seat_away_every_mute_and_every_event() {
    let (_clock, store) = engine();
    let mut one = Mc::take(&store, "mc-1").await.unwrap();
    let ada = one.seat("ada", Role::Host).await.unwrap();
    let bob = one.seat("bob", Role::Participant).await.unwrap();
    let mute = Request::HostMute {
        participant: bob.seat.participant,
        audio: true,
        video: false,
        reason: String::new(),
    };
    one.ask(&ada.seat, mute).await.unwrap();
    one.chat(&bob.seat, "can you hear me?").await.unwrap();
    one.ledger.flush().await.unwrap();
    let before = one.state.clone();
    one.guard.release().await.unwrap();

    let mut two = Mc::take(&store, "mc-2").await.unwrap();
    assert_eq!(two.state.journal, before.journal);
    assert_eq!((two.state.mute_epoch, two.state.seats.len()), (1, 2));
    assert!(two.state.seats.values().all(|seat| matches!(seat.presence, Presence::Away { .. })));
    assert_eq!(text(&store, "meeting:abc:mc").await.as_deref(), Some("mc-2"));
    // Bob comes back to his seat, still muted, and has missed nothing.
    let back = two.join(two.returning(&bob)).await.unwrap();
    assert!(back.resumed && back.seat.participant == bob.seat.participant && back.seat.mutes.audio_host);
    assert_eq!(back.replay.unwrap().iter().map(|entry| entry.seq).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(log(&store).await, [1, 2, 3, 4, 5]);
    assert_eq!(two.state.journal.last(), 5);
}

#[tokio::test(start_paused = true)]
async fn whoever_was_there_when_the_owner_died_has_until_thirty_five_seconds_after_its_last_sign() {
    let (clock, store) = engine();
    let mut one = Mc::take(&store, "mc-1").await.unwrap();
    let bob = one.seat("bob", Role::Participant).await.unwrap();
    clock.sleep_until(clock.now() + Duration::from_secs(60)).await;
    one.ledger.note_alive(one.now().wall).unwrap();
    one.ledger.flush().await.unwrap();
    // It dies; nobody saw bob go.
    drop(one);
    tokio::time::advance(Duration::from_secs(34)).await;
    let mut two = Mc::take(&store, "mc-2").await.unwrap();
    assert!(two.join(two.returning(&bob)).await.unwrap().resumed);
}

#[tokio::test(start_paused = true)]
async fn a_seat_that_ran_out_with_its_owner_is_swept_by_the_next() {
    let (_clock, store) = engine();
    let mut one = Mc::take(&store, "mc-1").await.unwrap();
    let bob = one.seat("bob", Role::Participant).await.unwrap();
    drop(one);
    tokio::time::advance(Duration::from_secs(40)).await;
    let mut two = Mc::take(&store, "mc-2").await.unwrap();
    let late = two.join(two.returning(&bob)).await.unwrap();
    assert!(!late.resumed && late.seat.participant != bob.seat.participant);
    two.perform(&Event::Time).await.unwrap();
    assert_eq!(two.state.seats.keys().collect::<Vec<_>>(), [&late.seat.participant]);
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_got_lost_is_pursued_and_lands_once() {
    for fates in [
        vec![Fate::AnswerLost],
        vec![Fate::Lost],
        vec![Fate::Hangs],
        vec![Fate::Lost, Fate::AnswerLost],
        vec![Fate::AnswerLost, Fate::Away],
        vec![Fate::Lost, Fate::Away, Fate::Hangs],
    ] {
        let (_clock, inner) = engine();
        let mishap = Mishap::new(inner.clone());
        let store: Arc<dyn Store> = mishap.clone();
        let mut mc = Mc::take(&store, "mc-1").await.unwrap();
        mishap.next(&fates);
        let ada = mc.seat("ada", Role::Host).await.unwrap();
        assert_eq!(mishap.left(), 0, "{fates:?}");
        assert_eq!(log(&inner).await, [1], "{fates:?}: joined once");
        mc.chat(&ada.seat, "still here").await.unwrap();
        mc.ledger.flush().await.unwrap();
        assert_eq!(log(&inner).await, [1, 2], "{fates:?}: and writes on");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_changes_nothing_and_is_asked_again_by_itself() {
    let (clock, inner) = engine();
    let mishap = Mishap::new(inner.clone());
    let store: Arc<dyn Store> = mishap.clone();
    let mut mc = Mc::take(&store, "mc-1").await.unwrap();
    let ada = mc.seat("ada", Role::Host).await.unwrap();
    mishap.always(Some(Fate::Away));
    let before = mc.state.clone();
    for _ in 0..5 {
        assert!(matches!(mc.seat("bob", Role::Participant).await, Err(LedgerError::Unavailable(_))));
    }
    assert_eq!(mc.state, before, "nobody joined");
    assert!(!mc.ledger.store_is_there(), "the breaker is open");
    // Chat goes on in memory.
    mc.chat(&ada.seat, "only in memory").await.unwrap();
    assert!(mc.ledger.is_behind());
    mishap.always(None);
    assert!(
        matches!(mc.ledger.flush().await, Err(LedgerError::Unavailable(_))),
        "nobody asks while it is open"
    );
    clock.sleep_until(clock.now() + Duration::from_secs(5)).await;
    mc.ledger.flush().await.unwrap();
    assert!(mc.ledger.store_is_there() && !mc.ledger.is_behind());
    assert_eq!(log(&inner).await, [1, 2]);
    mc.seat("bob", Role::Participant).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_write_in_doubt_ends_with_the_lease_and_not_with_a_guess() {
    let (clock, inner) = engine();
    let mishap = Mishap::new(inner.clone());
    let store: Arc<dyn Store> = mishap.clone();
    let mut mc = Mc::take(&store, "mc-1").await.unwrap();
    mishap.always(Some(Fate::Lost));
    let lease = mc.guard.share();
    let revoke = async {
        clock.sleep_until(clock.now() + Duration::from_secs(2)).await;
        let status = inner.inspect(lease.key()).await.unwrap();
        let revoke = Revoke {
            key: lease.key().clone(),
            generation: status.generation.unwrap(),
            delay: Some(Duration::ZERO),
            reason: Motive::default(),
        };
        inner.revoke(revoke).await.unwrap();
    };
    let (joined, ()) = tokio::join!(mc.seat("ada", Role::Host), revoke);
    assert_eq!(joined.map(|_| ()), Err(LedgerError::Lost));
    assert!(mc.state.seats.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_doubt_that_does_not_end_gives_the_meeting_up_though_the_lease_is_held() {
    let (clock, inner) = engine();
    let mishap = Mishap::new(inner.clone());
    let store: Arc<dyn Store> = mishap.clone();
    let mut mc = Mc::take(&store, "mc-1").await.unwrap();
    mishap.always(Some(Fate::Lost));
    let began = clock.now();
    assert_eq!(mc.seat("ada", Role::Host).await.map(|_| ()), Err(LedgerError::Lost));
    assert!(clock.now().since(began) < Duration::from_secs(30));
    assert!(mc.guard.permit(Duration::ZERO).is_ok());
}

#[tokio::test(start_paused = true)]
async fn more_than_a_step_of_notes_is_written_in_order() {
    let (_clock, store) = engine();
    let mut mc = Mc::take(&store, "mc-1").await.unwrap();
    let ada = mc.seat("ada", Role::Host).await.unwrap();
    for number in 0..200 {
        mc.chat(&ada.seat, &number.to_string()).await.unwrap();
    }
    mc.seat("bob", Role::Participant).await.unwrap();
    assert!(!mc.ledger.is_behind(), "a write takes along what was noted before it");
    let state = mc.state.clone();
    mc.guard.release().await.unwrap();
    assert_eq!(Mc::take(&store, "mc-2").await.unwrap().state.journal, state.journal);
}

#[tokio::test(start_paused = true)]
async fn a_meeting_that_is_over_leaves_only_its_number_and_can_be_held_again() {
    let (_clock, store) = engine();
    let mut mc = Mc::take(&store, "mc-1").await.unwrap();
    let ada = mc.seat("ada", Role::Host).await.unwrap();
    mc.seat("bob", Role::Participant).await.unwrap();
    mc.ask(&ada.seat, Request::End).await.unwrap();
    mc.ledger.clear().await.unwrap();
    let generation = mc.guard.generation();
    mc.guard.release().await.unwrap();
    let prefix = lease::Prefix::new("meeting:abc").unwrap();
    let left = store.scan(&lease::Query::new(prefix)).await.unwrap();
    let keys: Vec<&str> = left.items.iter().map(|record| record.key.as_str()).collect();
    assert_eq!(keys, ["meeting:abc:gen", "meeting:abc:mc"]);
    assert_eq!(text(&store, "meeting:abc:gen").await, Some(generation.to_string()));
    let mut again = Mc::take(&store, "mc-1").await.unwrap();
    assert!(again.guard.generation() > generation && again.state.seats.is_empty());
    again.seat("ada", Role::Host).await.unwrap();
    assert_eq!(again.state.journal.last(), 5, "joined, joined, ended, put away, joined");
}

#[tokio::test(start_paused = true)]
async fn a_meeting_whose_owner_ended_it_and_died_is_put_away_by_the_next() {
    let (_clock, store) = engine();
    let mut mc = Mc::take(&store, "mc-1").await.unwrap();
    let ada = mc.seat("ada", Role::Host).await.unwrap();
    mc.ask(&ada.seat, Request::End).await.unwrap();
    mc.guard.release().await.unwrap();
    let two = Mc::take(&store, "mc-2").await.unwrap();
    assert!(two.state.seats.is_empty());
    assert_eq!(text(&store, &format!("meeting:abc:seat:{}", ada.seat.participant)).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_nonce_that_the_store_knows_as_spent_is_not_spent_again() {
    let (_clock, store) = engine();
    let mut mc = Mc::take(&store, "mc-1").await.unwrap();
    let bob = mc.seat("bob", Role::Participant).await.unwrap();
    let key = Key::new(format!("meeting:abc:nonce:{}", bob.seat.binding.nonce.to_hex())).unwrap();
    let value = b"spent".as_slice().into();
    store.commit(&[lease::Op::Put { key, value, ttl: None }]).await.unwrap();
    let join = mc.returning(&bob);
    assert_eq!(mc.join(join.clone()).await.map(|_| ()), Err(LedgerError::NonceSpent));
    assert_eq!(mc.state.seats[&bob.seat.participant].epoch, 1, "nothing happened");
    let anew = mc.join(meet_mc::meeting::Join { resume: None, ..join }).await.unwrap();
    assert!(!anew.resumed);
}

#[tokio::test(start_paused = true)]
async fn a_controller_without_the_lease_cannot_open_the_ledger_of_a_later_one() {
    let (_clock, store) = engine();
    let (_keeper, old) = hold(&store, "mc-1").await;
    let stale = old.share();
    old.release().await.unwrap();
    let two = Mc::take(&store, "mc-2").await.unwrap();
    let opened = Ledger::open(desk(&store, "mc-1"), stale, &meeting(), &Settings::default(), &[]).await;
    assert_eq!(opened.map(|_| ()).unwrap_err(), LedgerError::FencedOut);
    drop(two);
}

#[tokio::test(start_paused = true)]
async fn who_finds_its_lease_over_learns_who_signed_since_and_counts_that_once() {
    let (_clock, store) = engine();
    let mut one = Mc::take(&store, "mc-1").await.unwrap();
    one.seat("ada", Role::Host).await.unwrap();
    let (key, generation) = (one.guard.key().clone(), one.guard.generation());
    let delay = Some(Duration::ZERO);
    store.revoke(Revoke { key, generation, delay, reason: Motive::default() }).await.unwrap();
    assert_eq!(one.ledger.inquire().await, Ok(()), "nobody, so far");
    let two = Mc::take(&store, "mc-2").await.unwrap();
    assert_eq!(one.ledger.inquire().await, Err(LedgerError::FencedOut));
    assert_eq!(one.ledger.inquire().await, Ok(()), "known and counted");
    assert_eq!(text(&store, "meeting:abc:gen").await.unwrap(), two.guard.generation().to_string());
}

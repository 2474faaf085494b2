//! The ledger on the memory engine, under virtual time.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Clock, Key, Revoke, RevokeReason, Store};
use tenure_meet_mc::meeting::{Input, Presence, Request, Role, Settings};
use tenure_meet_mc::{Ledger, LedgerError};
use tenure_store::{Local, TokioClock};

use crate::fixture::{Mc, hold, meeting, shared};
use tenure_testkit_meet::{FaultyStore, WriteFault};

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
async fn the_next_owner_restores_seats_mutes_and_events() {
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
    assert_eq!(two.state.log, before.log);
    assert_eq!((two.state.mute_epoch, two.state.seats.len()), (3, 2));
    assert!(two.state.seats.values().all(|seat| matches!(seat.presence, Presence::Disconnected { .. })));
    assert_eq!(text(&store, "meeting:abc:mc").await.as_deref(), Some("mc-2"));
    // Bob resumes the seat, still muted, with a full replay.
    let back = two.join(two.returning(&bob)).await.unwrap();
    assert!(back.resumed && back.seat.participant == bob.seat.participant && back.seat.mutes.audio_host);
    assert_eq!(back.replay.unwrap().iter().map(|entry| entry.seq).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(log(&store).await, [1, 2, 3, 4, 5]);
    assert_eq!(two.state.log.last(), 5);
}

#[tokio::test(start_paused = true)]
async fn seats_of_a_dead_owner_last_thirty_seconds_from_the_opening_of_the_next() {
    let (clock, store) = engine();
    let mut one = Mc::take(&store, "mc-1").await.unwrap();
    let bob = one.seat("bob", Role::Participant).await.unwrap();
    clock.sleep_until(clock.now() + Duration::from_secs(60)).await;
    one.ledger.enqueue_heartbeat(one.now().wall).unwrap();
    one.ledger.flush().await.unwrap();
    // The owner dies before a disconnect is recorded.
    drop(one);
    tokio::time::advance(Duration::from_secs(25)).await;
    let mut two = Mc::take(&store, "mc-2").await.unwrap();
    clock.sleep_until(clock.now() + Duration::from_secs(29)).await;
    assert!(two.join(two.returning(&bob)).await.unwrap().resumed);
}

#[tokio::test(start_paused = true)]
async fn the_next_owner_removes_an_expired_seat() {
    let (_clock, store) = engine();
    let mut one = Mc::take(&store, "mc-1").await.unwrap();
    let bob = one.seat("bob", Role::Participant).await.unwrap();
    drop(one);
    tokio::time::advance(Duration::from_secs(61)).await;
    let mut two = Mc::take(&store, "mc-2").await.unwrap();
    let late = two.join(two.returning(&bob)).await.unwrap();
    assert!(!late.resumed && late.seat.participant != bob.seat.participant);
    two.perform(&Input::Timer).await.unwrap();
    assert_eq!(two.state.seats.keys().collect::<Vec<_>>(), [&late.seat.participant]);
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_reply_is_lost_is_retried_and_lands_once() {
    for fates in [
        vec![WriteFault::ReplyLost],
        vec![WriteFault::RequestLost],
        vec![WriteFault::Hangs],
        vec![WriteFault::RequestLost, WriteFault::ReplyLost],
        vec![WriteFault::ReplyLost, WriteFault::Unavailable],
        vec![WriteFault::RequestLost, WriteFault::Hangs],
    ] {
        let (_clock, inner) = engine();
        let faulty = FaultyStore::new(inner.clone());
        let store: Arc<dyn Store> = faulty.clone();
        let mut mc = Mc::take(&store, "mc-1").await.unwrap();
        faulty.fail_next_writes(&fates);
        let ada = mc.seat("ada", Role::Host).await.unwrap();
        assert_eq!(faulty.remaining_faults(), 0, "{fates:?}");
        assert_eq!(log(&inner).await, [1], "{fates:?}: joined once");
        mc.chat(&ada.seat, "still here").await.unwrap();
        mc.ledger.flush().await.unwrap();
        assert_eq!(log(&inner).await, [1, 2], "{fates:?}: and writes on");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_store_changes_nothing_and_is_retried() {
    let (_clock, inner) = engine();
    let faulty = FaultyStore::new(inner.clone());
    let store: Arc<dyn Store> = faulty.clone();
    let mut mc = Mc::take(&store, "mc-1").await.unwrap();
    let ada = mc.seat("ada", Role::Host).await.unwrap();
    faulty.fail_all_writes(Some(WriteFault::Unavailable));
    let before = mc.state.clone();
    for _ in 0..5 {
        assert!(matches!(mc.seat("bob", Role::Participant).await, Err(LedgerError::Unavailable(_))));
    }
    assert_eq!(mc.state, before, "no seat was taken");
    assert!(!mc.ledger.store_available(), "the breaker is open");
    // Chat continues in memory.
    mc.chat(&ada.seat, "only in memory").await.unwrap();
    assert!(mc.ledger.has_backlog());
    faulty.fail_all_writes(None);
    assert!(
        matches!(mc.ledger.flush().await, Err(LedgerError::Unavailable(_))),
        "not called while it is open"
    );
    mc.shared.probe_store().await;
    mc.ledger.flush().await.unwrap();
    assert!(mc.ledger.store_available() && !mc.ledger.has_backlog());
    assert_eq!(log(&inner).await, [1, 2]);
    mc.seat("bob", Role::Participant).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_write_in_doubt_fails_when_another_controller_has_the_meeting() {
    let (_clock, inner) = engine();
    let faulty = FaultyStore::new(inner.clone());
    let store: Arc<dyn Store> = faulty.clone();
    let mut mc = Mc::take(&store, "mc-1").await.unwrap();
    faulty.fail_all_writes(Some(WriteFault::RequestLost));
    assert_eq!(mc.seat("ada", Role::Host).await.map(|_| ()), Err(LedgerError::InDoubt));
    let (key, generation) = (mc.guard.key().clone(), mc.guard.generation());
    let delay = Some(Duration::ZERO);
    inner.revoke(Revoke { key, generation, delay, reason: RevokeReason::default() }).await.unwrap();
    let _two = Mc::take(&inner, "mc-2").await.unwrap();
    faulty.fail_all_writes(None);
    mc.shared.probe_store().await;
    let resolved = mc.ledger.flush().await;
    assert!(resolved.as_ref().is_err_and(LedgerError::ends_ownership), "{resolved:?}");
    assert!(mc.state.seats.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_write_in_doubt_is_answered_within_three_seconds_and_resolved_later() {
    for fault in [WriteFault::Hangs, WriteFault::RequestLost, WriteFault::ReplyLost] {
        let (clock, inner) = engine();
        let faulty = FaultyStore::new(inner.clone());
        let store: Arc<dyn Store> = faulty.clone();
        let mut mc = Mc::take(&store, "mc-1").await.unwrap();
        // Longer than the caller waits.
        faulty.fail_next_writes(&[fault, WriteFault::Hangs, WriteFault::Hangs]);
        let began = clock.now();
        assert_eq!(mc.seat("ada", Role::Host).await.map(|_| ()), Err(LedgerError::InDoubt), "{fault:?}");
        assert!(clock.now().since(began) < Duration::from_secs(3), "{fault:?}");
        let next = mc.seat("bob", Role::Participant).await.map(|_| ());
        assert!(matches!(next, Err(LedgerError::Unavailable(_))), "nothing overtakes it: {next:?}");
        faulty.fail_next_writes(&[]);
        while mc.ledger.is_in_doubt() {
            mc.shared.probe_store().await;
            let _again = mc.ledger.flush().await;
        }
        assert_eq!(mc.ledger.take_outcome(), Some(tenure_meet_mc::DoubtOutcome::Landed), "{fault:?}");
        assert_eq!(log(&inner).await, [1], "{fault:?}: joined once");
        assert!(mc.guard.permit(Duration::ZERO).is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn more_than_one_batch_is_written_in_order() {
    let (_clock, store) = engine();
    let mut mc = Mc::take(&store, "mc-1").await.unwrap();
    let ada = mc.seat("ada", Role::Host).await.unwrap();
    for number in 0..200 {
        mc.chat(&ada.seat, &number.to_string()).await.unwrap();
    }
    mc.seat("bob", Role::Participant).await.unwrap();
    assert!(!mc.ledger.has_backlog(), "a write takes along what was noted before it");
    let state = mc.state.clone();
    mc.guard.release().await.unwrap();
    assert_eq!(Mc::take(&store, "mc-2").await.unwrap().state.log, state.log);
}

#[tokio::test(start_paused = true)]
async fn an_ended_meeting_leaves_only_its_event_number_and_can_be_opened_again() {
    let (_clock, store) = engine();
    let mut mc = Mc::take(&store, "mc-1").await.unwrap();
    let ada = mc.seat("ada", Role::Host).await.unwrap();
    mc.seat("bob", Role::Participant).await.unwrap();
    mc.ask(&ada.seat, Request::End).await.unwrap();
    mc.ledger.clear().await.unwrap();
    let generation = mc.guard.generation();
    mc.guard.release().await.unwrap();
    let prefix = tenure_lease::Prefix::new("meeting:abc").unwrap();
    let left = store.scan(&tenure_lease::Query::new(prefix)).await.unwrap();
    let keys: Vec<&str> = left.items.iter().map(|record| record.key.as_str()).collect();
    assert_eq!(keys, ["meeting:abc:ended", "meeting:abc:gen", "meeting:abc:mc"]);
    assert_eq!(text(&store, "meeting:abc:gen").await, Some(generation.to_string()));
    let mut again = Mc::take(&store, "mc-1").await.unwrap();
    assert!(again.guard.generation() > generation && again.state.seats.is_empty());
    assert!(text(&store, "meeting:abc:ended").await.is_some(), "until a host joins");
    again.seat("ada", Role::Host).await.unwrap();
    assert_eq!(text(&store, "meeting:abc:ended").await, None);
    assert_eq!(again.state.log.last(), 5, "joined, joined, ended, put away, joined");
}

#[tokio::test(start_paused = true)]
async fn the_next_owner_removes_a_meeting_whose_owner_died_after_ending_it() {
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
async fn an_unreadable_row_or_an_unknown_role_costs_one_seat_and_not_the_meeting() {
    let (_clock, store) = engine();
    let mut one = Mc::take(&store, "mc-1").await.unwrap();
    let ada = one.seat("ada", Role::Host).await.unwrap();
    let bob = one.seat("bob", Role::Participant).await.unwrap();
    one.seat("eve", Role::Guest).await.unwrap();
    one.guard.release().await.unwrap();
    let key = |seat: &tenure_meet_mc::meeting::Seat| format!("meeting:abc:seat:{}", seat.participant);
    let unknown = text(&store, &key(&bob.seat))
        .await
        .unwrap()
        .replace("\"participant\",\"joined", "\"pilot\",\"joined");
    for (key, value) in [(key(&ada.seat), "{".to_owned()), (key(&bob.seat), unknown)] {
        let value = value.into_bytes().into();
        store
            .commit(&[tenure_lease::Op::Put { key: Key::new(key).unwrap(), value, ttl: None }])
            .await
            .unwrap();
    }
    let two = Mc::take(&store, "mc-2").await.unwrap();
    let users: Vec<&str> = two.state.seats.values().map(|seat| seat.user.as_str()).collect();
    assert_eq!(users, ["eve"]);
}

#[tokio::test(start_paused = true)]
async fn large_seats_are_written_in_several_steps() {
    let (_clock, inner) = engine();
    let faulty = FaultyStore::new(inner.clone());
    let store: Arc<dyn Store> = faulty.clone();
    let mut mc = Mc::take(&store, "mc-1").await.unwrap();
    let mut seats = Vec::new();
    for number in 0..28 {
        seats.push(mc.seat(&format!("guest-{number}"), Role::Guest).await.unwrap().seat);
    }
    // The rows grow while the store is away: together they exceed one commit.
    faulty.fail_all_writes(Some(WriteFault::Unavailable));
    for seat in &seats {
        for stream_id in 0..16 {
            let metadata = "\u{1}".repeat(1_024);
            let kind = tenure_meet_mc::meeting::StreamKind::Audio;
            mc.ask(seat, Request::Publish { stream_id, kind, metadata }).await.unwrap();
        }
    }
    faulty.fail_all_writes(None);
    mc.shared.probe_store().await;
    mc.ledger.flush().await.unwrap();
    mc.seat("late", Role::Participant).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_nonce_that_the_store_knows_as_spent_is_not_spent_again() {
    let (_clock, store) = engine();
    let mut mc = Mc::take(&store, "mc-1").await.unwrap();
    let bob = mc.seat("bob", Role::Participant).await.unwrap();
    let key = Key::new(format!("meeting:abc:nonce:{}", bob.seat.binding.nonce.to_hex())).unwrap();
    let value = b"spent".as_slice().into();
    store.commit(&[tenure_lease::Op::Put { key, value, ttl: None }]).await.unwrap();
    let join = mc.returning(&bob);
    assert_eq!(mc.join(join.clone()).await.map(|_| ()), Err(LedgerError::NonceSpent));
    assert_eq!(mc.state.seats[&bob.seat.participant].epoch, 1, "nothing happened");
    let anew = mc.join(tenure_meet_mc::meeting::Join { resume: None, ..join }).await.unwrap();
    assert!(!anew.resumed);
}

#[tokio::test(start_paused = true)]
async fn a_controller_without_the_lease_cannot_open_the_ledger_of_a_later_owner() {
    let (_clock, store) = engine();
    let (_keeper, old) = hold(&store, "mc-1").await;
    let stale = old.share();
    old.release().await.unwrap();
    let two = Mc::take(&store, "mc-2").await.unwrap();
    let opened = Ledger::open(shared(&store, "mc-1"), stale, &meeting(), &Settings::default(), &[]).await;
    assert_eq!(opened.map(|_| ()).unwrap_err(), LedgerError::FencedOut);
    drop(two);
}

#[tokio::test(start_paused = true)]
async fn an_expired_owner_detects_the_next_writer_and_counts_it_once() {
    let (_clock, store) = engine();
    let mut one = Mc::take(&store, "mc-1").await.unwrap();
    one.seat("ada", Role::Host).await.unwrap();
    let (key, generation) = (one.guard.key().clone(), one.guard.generation());
    let delay = Some(Duration::ZERO);
    store.revoke(Revoke { key, generation, delay, reason: RevokeReason::default() }).await.unwrap();
    assert_eq!(one.ledger.check_superseded().await, Ok(()), "no other writer yet");
    let two = Mc::take(&store, "mc-2").await.unwrap();
    assert_eq!(one.ledger.check_superseded().await, Err(LedgerError::FencedOut));
    assert_eq!(one.ledger.check_superseded().await, Ok(()), "known and counted");
    assert_eq!(text(&store, "meeting:abc:gen").await.unwrap(), two.guard.generation().to_string());
}

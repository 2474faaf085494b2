//! The lease of a whole process.

use std::sync::{Arc, mpsc};

use tenure_keeper::{Error, Gate, Lost, Terms};
use tenure_lease::{Clock, End, Error as StoreError, Released};
use tenure_store::BootClock;

use crate::fake::FakeStore;
use crate::faults::Kind;
use crate::fixture::{Fixture, TTL, build, key, ms, prefix, terms};

async fn open(fixture: &Fixture) -> (Gate, mpsc::Receiver<Lost>) {
    let (tell, told) = mpsc::sync_channel(4);
    let gate = Gate::open_with(&fixture.keeper, key("gate"), terms(), move |lost| tell.send(lost).unwrap());
    (gate.await.unwrap(), told)
}

#[tokio::test(start_paused = true)]
async fn the_first_renewal_that_fails_ends_the_process() {
    let fixture = Fixture::new();
    let (gate, told) = open(&fixture).await;
    fixture.pass(TTL * 5).await;
    assert!(told.try_recv().is_err());
    fixture.store.faults.inject("renew", Kind::Refused, 1);
    gate.lost().await;
    fixture.pass(1).await;
    assert_eq!(told.recv().unwrap(), Lost::Unconfirmed);
    fixture.pass(TTL).await;
    assert!(told.try_recv().is_err(), "once");
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_others_ended_ends_the_process() {
    let fixture = Fixture::new();
    let (_gate, told) = open(&fixture).await;
    fixture.store.end("gate", End::Revoked);
    fixture.pass(5_100).await;
    assert_eq!(told.recv().unwrap(), Lost::Ended(End::Revoked));
}

#[tokio::test(start_paused = true)]
async fn a_busy_gate_is_an_error() {
    let fixture = Fixture::new();
    let (gate, _told) = open(&fixture).await;
    let other = fixture.other("b");
    let error = Gate::open_with(&other, key("gate"), terms(), |_| ()).await.unwrap_err();
    assert_eq!(error.busy().unwrap().holder.as_ref(), Some(gate.holder()));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_at_the_start_is_an_error_and_is_not_retried() {
    let fixture = Fixture::new();
    fixture.store.faults.inject("acquire", Kind::CutReply, 1);
    let error = Gate::open_with(&fixture.keeper, key("gate"), terms(), |_| ()).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Unknown { .. })), "{error}");
    assert_eq!(fixture.store.calls("acquire").len(), 1);
    fixture.keeper.settled().await;
    assert_eq!(fixture.store.holder("gate"), None);
}

#[tokio::test(start_paused = true)]
async fn closing_or_dropping_a_gate_is_not_a_loss() {
    let fixture = Fixture::new();
    let (gate, told) = open(&fixture).await;
    assert_eq!(gate.close().await.unwrap(), Released::Released);
    let (gate, told_too) = open(&fixture).await;
    drop(gate);
    fixture.pass(TTL).await;
    assert!(told.try_recv().is_err());
    assert!(told_too.try_recv().is_err());
    assert_eq!(fixture.store.holder("gate"), None);
}

#[tokio::test(start_paused = true)]
async fn a_proven_gate_wipes_everything_but_itself() {
    let fixture = Fixture::new();
    let (gate, told) = open(&fixture).await;
    let other = fixture.other("b");
    let guard = other.try_acquire(key("work/1"), terms()).await.unwrap();
    let spared = other.try_acquire(key("other"), terms()).await.unwrap();
    assert_eq!(gate.wipe(prefix("work/")).await.unwrap(), 1);
    assert_eq!(gate.wipe(prefix("gate")).await.unwrap(), 0);
    assert_eq!(guard.lost().await, Lost::Ended(End::Wiped));
    assert!(spared.permit(ms(0)).is_ok());
    assert!(told.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_the_store_does_not_know_wipes_nothing_and_is_lost() {
    let fixture = Fixture::new();
    let (gate, told) = open(&fixture).await;
    let guard = fixture.take("work/1", terms()).await;
    fixture.store.end("gate", End::Revoked);
    assert!(matches!(gate.wipe(prefix("work/")).await, Err(Error::Unproven { .. })));
    assert!(gate.proof().is_err());
    fixture.pass(1).await;
    assert_eq!(told.recv().unwrap(), Lost::Ended(End::Gone));
    assert!(fixture.store.holder("work/1").is_some_and(|(_, generation)| generation == guard.generation()));
}

/// Waits for a gate that `a` holds; `dead` is whether its holder is proven dead.
async fn open_after(fixture: &Fixture, wait: u64, dead: bool) -> Result<Gate, Error> {
    let other = fixture.other("b");
    Gate::open_after(&other, key("gate"), terms(), ms(wait), move |_| dead, |_| ()).await
}

#[tokio::test(start_paused = true)]
async fn a_gate_waits_until_its_holder_releases_it() {
    let fixture = Fixture::new();
    let (gate, _told) = open(&fixture).await;
    let (taken, ()) = tokio::join!(open_after(&fixture, TTL, false), async {
        fixture.pass(3_000).await;
        gate.close().await.unwrap();
    });
    assert_eq!(fixture.store.holder("gate").unwrap().0, *taken.unwrap().holder());
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_stays_held_is_an_error_that_names_its_holder() {
    let fixture = Fixture::new();
    let (gate, told) = open(&fixture).await;
    let start = fixture.clock.now();
    let error = open_after(&fixture, TTL + 2_000, false).await.unwrap_err();
    assert_eq!(error.busy().unwrap().holder.as_ref(), Some(gate.holder()));
    assert!(fixture.clock.now().since(start) >= ms(TTL + 2_000));
    assert!(gate.permit(ms(0)).is_ok() && told.try_recv().is_err(), "nothing happened to it");
}

#[tokio::test(start_paused = true)]
async fn a_gate_of_a_dead_holder_is_replaced_at_once() {
    let fixture = Fixture::new();
    let (gate, told) = open(&fixture).await;
    let before = gate.generation();
    let start = fixture.clock.now();
    let taken = open_after(&fixture, TTL, true).await.unwrap();
    assert!(taken.generation() > before);
    assert!(fixture.clock.now().since(start) < ms(1_000));
    fixture.pass(5_100).await;
    assert_eq!(told.recv().unwrap(), Lost::Ended(End::Superseded));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_while_waiting_for_a_gate_is_an_error_at_once() {
    let fixture = Fixture::new();
    let (_gate, _told) = open(&fixture).await;
    fixture.store.faults.inject("acquire", Kind::CutReply, 1);
    let error = open_after(&fixture, TTL, true).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Unknown { .. })), "{error}");
}

/// On real time, with the only thread of the runtime blocked for as long as the test waits.
#[tokio::test]
async fn a_blocked_runtime_does_not_keep_a_lost_gate_alive() {
    let clock = Arc::new(BootClock);
    let store = Arc::new(FakeStore::new(clock.clone()));
    let keeper = build(&store, "a").build();
    let (tell, told) = mpsc::sync_channel(1);
    let terms = Terms::new(tenure_lease::Ttl::from_millis(300).unwrap());
    let gate =
        Gate::open_with(&keeper, key("gate"), terms, move |lost| tell.send(lost).unwrap()).await.unwrap();
    let deadline = gate.deadline();
    assert_eq!(told.recv_timeout(ms(5_000)).unwrap(), Lost::Unconfirmed);
    let late = clock.now().since(deadline.tick());
    assert!(late < ms(1_000), "{late:?}");
}

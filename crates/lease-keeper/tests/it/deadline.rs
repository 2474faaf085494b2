//! The deadline counts from before the send, and permits are about the clock.

use tenure_keeper::{GuardState, PermitError};
use tenure_lease::{Clock, Committed, Deadline, Margins, Mode, Records, Ttl};

use crate::faults::Kind;
use crate::fixture::{DEADLINE, Fixture, TTL, key, ms, terms};

#[tokio::test(start_paused = true)]
async fn the_deadline_of_an_acquire_counts_from_before_the_send_even_when_the_reply_is_slow() {
    let fixture = Fixture::new();
    fixture.store.faults.inject("acquire", Kind::SlowReply(ms(3_000)), 1);
    let before = fixture.clock.now();
    let guard = fixture.take("k", terms()).await;
    assert!(fixture.clock.now() >= before + ms(3_000));
    let expected = Deadline::from_send(before, Ttl::from_millis(TTL).unwrap(), &Margins::default());
    assert_eq!(guard.deadline(), expected);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_renewal_counts_from_its_own_send() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    fixture.store.faults.inject("renew", Kind::SlowReply(ms(2_000)), 1);
    fixture.pass(4_900 + 2_300).await;
    let sent = fixture.store.calls("renew")[0].at;
    let expected = Deadline::from_send(sent, Ttl::from_millis(TTL).unwrap(), &Margins::default());
    assert_eq!(guard.deadline(), expected);
    assert!(fixture.clock.now() > sent + ms(2_000));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_late_in_the_network_still_counts_from_its_send() {
    let fixture = Fixture::new();
    fixture.store.faults.inject("acquire", Kind::Late(ms(4_000)), 1);
    let before = fixture.clock.now();
    let guard = fixture.take("k", terms()).await;
    assert_eq!(guard.deadline().left(before), ms(DEADLINE));
    // The store itself grants four seconds more.
    assert_eq!(fixture.store.holder("k").unwrap().1, guard.generation());
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_arrives_after_its_deadline_is_renewed_before_it_becomes_a_guard() {
    let fixture = Fixture::new();
    // The clock runs on while the reply waits, as it does while a machine sleeps.
    fixture.store.faults.inject("acquire", Kind::SlowReply(ms(1_000)), 1);
    let (keeper, clock) = (fixture.keeper.clone(), fixture.clock.clone());
    let taking = async move { keeper.try_acquire(key("k"), terms()).await };
    let asleep = async {
        clock.sleep_until(clock.now() + ms(500)).await;
        clock.step(ms(DEADLINE - 900));
    };
    let (guard, ()) = tokio::join!(taking, asleep);
    let guard = guard.unwrap();
    assert_eq!(fixture.store.calls("renew").len(), 1);
    assert!(guard.deadline().left(fixture.clock.now()) > ms(DEADLINE - 100));
    guard.permit(ms(1_000)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_permit_needs_the_whole_time_before_the_deadline() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let permit = guard.permit(ms(DEADLINE - 10)).unwrap();
    assert_eq!(permit.generation(), guard.generation());
    assert_eq!(permit.deadline(), guard.deadline());
    assert!(matches!(guard.permit(ms(DEADLINE + 1)), Err(PermitError::TooLate { .. })));
}

#[tokio::test(start_paused = true)]
async fn after_a_suspend_permits_are_refused_at_once_though_no_timer_fired() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let states = guard.states();
    fixture.suspend(TTL);
    // Nothing was awaited: no task ran since.
    assert_eq!(*states.borrow(), GuardState::Held);
    assert_eq!(guard.permit(ms(0)).unwrap_err(), PermitError::Suspended);
    assert_eq!(guard.state(), GuardState::Suspended);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_arrives_after_the_deadline_gives_no_permit() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    fixture.store.faults.inject("renew", Kind::SlowReply(ms(2_000)), 1);
    fixture.pass(5_100).await;
    assert_eq!(fixture.store.calls("renew").len(), 1);
    // Suspended with the reply in the air: on wake it counts from its send, long ago.
    fixture.suspend(TTL + 5_000);
    fixture.store.faults.inject("renew", Kind::Hang, 9);
    fixture.pass(1_999).await;
    assert_eq!(guard.permit(ms(0)).unwrap_err(), PermitError::Suspended);
}

#[tokio::test(start_paused = true)]
async fn the_fence_of_a_permit_is_accepted_until_the_lease_ends() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let fence = guard.permit(ms(0)).unwrap().fence(Mode::Strict);
    assert!(matches!(fixture.store.write_fenced(&fence, &[]).await.unwrap(), Committed::Written { .. }));
    let held = guard.share();
    guard.release().await.unwrap();
    assert!(matches!(fixture.store.write_fenced(&fence, &[]).await.unwrap(), Committed::FencedOut { .. }));
    assert!(matches!(held.permit(ms(0)), Err(PermitError::Lost(_))));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_reports_less_shortens_the_lease_and_the_permits_of_it() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    fixture.pass(4_000).await;
    let permit = guard.permit(ms(0)).unwrap();
    let short = Ttl::from_millis(3_000).unwrap();
    fixture.store.shorten("k", short);
    fixture.pass(1_100).await;
    let sent = fixture.store.calls("renew")[0].at;
    let expected = Deadline::from_send(sent, short, &Margins::default());
    assert_eq!((guard.deadline(), permit.deadline()), (expected, expected));
    drop(permit);
    // It is renewed often enough to be kept.
    for _ in 0..100 {
        fixture.pass(100).await;
        assert!(guard.state().is_exclusive());
        assert!(guard.deadline().left(fixture.clock.now()) <= ms(3_000));
    }
}

#[tokio::test(start_paused = true)]
async fn a_parked_grant_counts_only_for_what_its_renewal_reported() {
    let fixture = Fixture::new();
    let first = fixture.take("k", terms()).await;
    let other = fixture.other("b");
    let (store, short) = (fixture.store.clone(), Ttl::from_millis(3_000).unwrap());
    fixture.store.faults.inject("renew", Kind::Late(ms(100)), 1);
    let releasing = async {
        fixture.pass(100).await;
        first.release().await.unwrap();
        fixture.pass(50).await;
        store.shorten("k", short);
    };
    let (second, ()) = tokio::join!(other.acquire(key("k"), terms(), ms(60_000)), releasing);
    let sent = fixture.store.calls("renew")[0].at;
    assert_eq!(second.unwrap().deadline(), Deadline::from_send(sent, short, &Margins::default()));
}

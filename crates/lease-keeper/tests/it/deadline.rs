//! The deadline counts from before the send, and permits are about the clock.

use lease::{Clock, Committed, Deadline, Margins, Mode, Records, Ttl};
use lease_keeper::{NotSafe, State};

use crate::bench::{Bench, DEADLINE, TTL, key, ms, terms};
use crate::faults::Kind;

#[tokio::test(start_paused = true)]
async fn the_deadline_of_an_acquire_counts_from_before_the_send_even_when_the_reply_is_slow() {
    let bench = Bench::new();
    bench.store.faults.inject("acquire", Kind::SlowReply(ms(3_000)), 1);
    let before = bench.clock.now();
    let guard = bench.take("k", terms()).await;
    assert!(bench.clock.now() >= before + ms(3_000));
    let expected = Deadline::from_send(before, Ttl::from_millis(TTL).unwrap(), &Margins::default());
    assert_eq!(guard.deadline(), expected);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_renewal_counts_from_its_own_send() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    bench.store.faults.inject("renew", Kind::SlowReply(ms(2_000)), 1);
    bench.pass(4_900 + 2_300).await;
    let sent = bench.store.calls("renew")[0].at;
    let expected = Deadline::from_send(sent, Ttl::from_millis(TTL).unwrap(), &Margins::default());
    assert_eq!(guard.deadline(), expected);
    assert!(bench.clock.now() > sent + ms(2_000));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_late_in_the_network_still_counts_from_its_send() {
    let bench = Bench::new();
    bench.store.faults.inject("acquire", Kind::Late(ms(4_000)), 1);
    let before = bench.clock.now();
    let guard = bench.take("k", terms()).await;
    assert_eq!(guard.deadline().left(before), ms(DEADLINE));
    // The store itself gives four seconds more, which nobody uses.
    assert_eq!(bench.store.holder("k").unwrap().1, guard.generation());
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_arrives_after_its_deadline_is_renewed_before_it_is_handed_out() {
    let bench = Bench::new();
    // The clock runs on while the reply waits, as it does while a machine sleeps.
    bench.store.faults.inject("acquire", Kind::SlowReply(ms(1_000)), 1);
    let (keeper, clock) = (bench.keeper.clone(), bench.clock.clone());
    let taking = async move { keeper.try_acquire(key("k"), terms()).await };
    let asleep = async {
        clock.sleep_until(clock.now() + ms(500)).await;
        clock.step(ms(DEADLINE - 900));
    };
    let (guard, ()) = tokio::join!(taking, asleep);
    let guard = guard.unwrap();
    assert_eq!(bench.store.calls("renew").len(), 1);
    assert!(guard.deadline().left(bench.clock.now()) > ms(DEADLINE - 100));
    guard.permit(ms(1_000)).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_permit_needs_the_whole_time_before_the_deadline() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let permit = guard.permit(ms(DEADLINE - 10)).unwrap();
    assert_eq!(permit.generation(), guard.generation());
    assert_eq!(permit.deadline(), guard.deadline());
    assert!(matches!(guard.permit(ms(DEADLINE + 1)), Err(NotSafe::TooLate { .. })));
}

#[tokio::test(start_paused = true)]
async fn after_a_suspend_permits_are_refused_at_once_though_no_timer_fired() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let states = guard.states();
    bench.suspend(TTL);
    // Nothing was awaited: no task ran since.
    assert_eq!(*states.borrow(), State::Held);
    assert_eq!(guard.permit(ms(0)).unwrap_err(), NotSafe::Suspended);
    assert_eq!(guard.state(), State::Suspended);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_arrives_after_the_deadline_gives_no_permit() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    bench.store.faults.inject("renew", Kind::SlowReply(ms(2_000)), 1);
    bench.pass(5_100).await;
    assert_eq!(bench.store.calls("renew").len(), 1);
    // Suspended with the reply in the air: on wake it counts from its send, long ago.
    bench.suspend(TTL + 5_000);
    bench.store.faults.inject("renew", Kind::Hang, 9);
    bench.pass(1_999).await;
    assert_eq!(guard.permit(ms(0)).unwrap_err(), NotSafe::Suspended);
}

#[tokio::test(start_paused = true)]
async fn a_permit_makes_the_fence_that_the_store_admits_until_the_lease_is_over() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let fence = guard.permit(ms(0)).unwrap().fence(Mode::Strict);
    assert!(matches!(bench.store.write_fenced(&fence, &[]).await.unwrap(), Committed::Written { .. }));
    let held = guard.share();
    guard.release().await.unwrap();
    assert!(matches!(bench.store.write_fenced(&fence, &[]).await.unwrap(), Committed::FencedOut { .. }));
    assert!(matches!(held.permit(ms(0)), Err(NotSafe::Lost(_))));
}

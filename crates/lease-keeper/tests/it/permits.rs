//! A release is not answered while a permit is alive.

use std::time::Duration;

use futures_util::poll;
use tenure_keeper::{Bundle, Gate, Handoff, HandoffOutcome, PermitError, Slots, TransferOutcome};
use tenure_lease::{Clock, Released};
use tokio::task::JoinSet;

use crate::fixture::{DEADLINE, Fixture, TTL, holder, key, ms, terms};

/// Runs a release beside a permit that is dropped after a second, and asserts that the store learns of it only then.
async fn waits<T>(
    fixture: &Fixture,
    name: &str,
    releasing: impl Future<Output = T>,
    permit: tenure_keeper::Permit<'_>,
) -> T {
    let start = fixture.clock.now();
    let acting = async {
        fixture.pass(1_000).await;
        assert_eq!(fixture.store.holder(name).unwrap().1, permit.generation(), "the permit is alive");
        assert!(!permit.deadline().passed(fixture.clock.now()));
        drop(permit);
    };
    let (released, ()) = tokio::join!(releasing, acting);
    assert!(fixture.clock.now().since(start) < ms(1_100), "it waits for nothing else");
    released
}

#[tokio::test(start_paused = true)]
async fn a_release_waits_for_the_permits_of_shared_handles() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let worker = guard.share();
    let permit = worker.permit(ms(0)).unwrap();
    assert_eq!(waits(&fixture, "k", guard.release(), permit).await.unwrap(), Released::Released);
    assert_eq!(fixture.store.holder("k"), None);
}

#[tokio::test(start_paused = true)]
async fn no_permit_is_given_once_a_release_has_begun() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let worker = guard.share();
    let permit = worker.permit(ms(0)).unwrap();
    let mut releasing = Box::pin(guard.release());
    assert!(poll!(&mut releasing).is_pending());
    assert!(matches!(worker.permit(ms(0)), Err(PermitError::Lost(_))));
    drop(permit);
    releasing.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_is_never_dropped_delays_a_release_until_its_deadline() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let start = fixture.clock.now();
    let worker = guard.share();
    std::mem::forget(worker.permit(ms(0)).unwrap());
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    let waited = fixture.clock.now().since(start);
    assert!(waited >= ms(DEADLINE) && waited < ms(DEADLINE + 10), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_transfer_waits_for_permits() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let worker = guard.share();
    let successor = fixture.other("b");
    let mut waiting = JoinSet::new();
    waiting.spawn(async move { successor.acquire(key("k"), terms(), ms(60_000)).await });
    fixture.pass(1).await;
    let permit = worker.permit(ms(0)).unwrap();
    let moved = waits(&fixture, "k", guard.transfer(holder("b")), permit).await;
    let TransferOutcome::Transferred(lease) = moved else { panic!("{moved:?}") };
    assert_eq!(waiting.join_next().await.unwrap().unwrap().unwrap().generation(), lease.generation);
}

#[tokio::test(start_paused = true)]
async fn a_handoff_waits_for_permits_beyond_its_limit() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let worker = guard.share();
    let permit = worker.permit(ms(0)).unwrap();
    let moving = Handoff::new(guard, holder("b")).within(ms(100));
    let moved = waits(&fixture, "k", moving, permit).await.unwrap();
    assert!(matches!(moved, HandoffOutcome::Released { .. }), "{moved:?}");
}

#[tokio::test(start_paused = true)]
async fn a_bundle_waits_for_the_permits_of_all_its_guards_at_once() {
    let fixture = Fixture::new();
    let both = [(key("a"), terms()), (key("b"), terms())];
    let bundle = Bundle::acquire(&fixture.keeper, &both, Duration::ZERO).await.unwrap();
    let [first, second] = ["a", "b"].map(|name| bundle.get(&key(name)).unwrap().share());
    std::mem::forget(first.permit(ms(0)).unwrap());
    let permit = second.permit(ms(0)).unwrap();
    let start = fixture.clock.now();
    let acting = async {
        fixture.pass(1_000).await;
        assert!(fixture.store.holder("b").is_some());
        assert!(matches!(first.permit(ms(0)), Err(PermitError::Draining)), "no guard gives new ones");
        drop(permit);
    };
    let (released, ()) = tokio::join!(bundle.release(), acting);
    released.unwrap();
    let waited = fixture.clock.now().since(start);
    assert!(waited >= ms(DEADLINE) && waited < ms(DEADLINE + 10), "one deadline, not two: {waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_slot_and_a_gate_wait_for_their_permits() {
    let fixture = Fixture::new();
    let slots = Slots::new(&fixture.keeper, key("tuner"), 1).unwrap();
    let slot = slots.take(terms(), ms(0)).await.unwrap();
    let worker = slot.share();
    let permit = worker.permit(ms(0)).unwrap();
    waits(&fixture, "tuner/0", slot.into_guard().release(), permit).await.unwrap();

    let gate = Gate::open_with(&fixture.keeper, key("gate"), terms(), |_| ()).await.unwrap();
    let worker = gate.share();
    let permit = worker.permit(ms(0)).unwrap();
    waits(&fixture, "gate", gate.close(), permit).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_reaper_waits_for_the_permits_of_a_dropped_guard_and_of_a_cancelled_release() {
    let fixture = Fixture::new();
    let guard = fixture.take("dropped", terms()).await;
    let worker = guard.share();
    let permit = worker.permit(ms(0)).unwrap();
    drop(guard);
    waits(&fixture, "dropped", fixture.keeper.settled(), permit).await;
    assert_eq!(fixture.store.holder("dropped"), None);

    let guard = fixture.take("cancelled", terms()).await;
    let worker = guard.share();
    let permit = worker.permit(ms(0)).unwrap();
    let mut releasing = Box::pin(guard.release());
    assert!(poll!(&mut releasing).is_pending());
    drop(releasing);
    waits(&fixture, "cancelled", fixture.keeper.settled(), permit).await;
    assert_eq!(fixture.store.holder("cancelled"), None);
}

#[tokio::test(start_paused = true)]
async fn releases_that_wait_for_permits_do_not_delay_others() {
    let fixture = Fixture::new();
    let idle = fixture.take("idle", terms()).await;
    let mut workers = Vec::new();
    for number in 0..2 * tenure_keeper::limits::CONCURRENT_RELEASES {
        let guard = fixture.take(&format!("busy/{number}"), terms()).await;
        let worker = guard.share();
        std::mem::forget(worker.permit(ms(0)).unwrap());
        drop(guard);
        workers.push(worker);
    }
    drop(idle);
    fixture.pass(10).await;
    assert_eq!(fixture.store.holder("idle"), None);
    assert!(fixture.store.holder("busy/0").is_some());
    fixture.pass(TTL).await;
    fixture.keeper.settled().await;
    assert_eq!(fixture.store.holder("busy/0"), None);
}

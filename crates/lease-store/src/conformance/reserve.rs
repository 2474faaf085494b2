//! A release to a named heir.

use std::time::Duration;

use lease::{Acquired, Phase, Reason, Released, limits};

use super::{Held, World, said};

const RESERVATION: Duration = Duration::from_millis(limits::RESERVATION_MS);

async fn give_to(world: &World, held: &Held, heir: &str) {
    let release = held.giving(Some(world.holder(heir)));
    assert_eq!(said(world.store().release(release).await), Released::Released);
}

pub async fn a_parked_heir_is_granted_at_once(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let mut bob = world.queue(held.key(), "bob").await;
    let cat = world.queue(held.key(), "cat").await;
    give_to(world, &held, "cat").await;
    let next = cat.granted(world).await;
    assert!(next.parked && next.generation() > held.generation());
    assert!(bob.is_parked());
    world.assert_live(&next).await;
}

pub async fn a_key_is_reserved_for_an_heir_that_is_not_parked(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let sent = world.now();
    give_to(world, &held, "bob").await;
    let told = world.now();
    let status = world.inspect(held.key()).await;
    assert_eq!((status.phase, status.holder), (Phase::Reserved, Some(world.holder("bob"))));
    let ends = world.ends(held.key()).await;
    ends.assert_after(sent, RESERVATION);
    ends.assert_before(told, RESERVATION);
}

pub async fn a_reserved_key_is_busy_for_others(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    give_to(world, &held, "bob").await;
    let busy = world.busy(world.claim(held.key(), "cat")).await;
    assert_eq!((busy.reason, busy.holder), (Reason::Reserved, Some(world.holder("bob"))));
    assert!(busy.remaining.is_some_and(|left| left <= RESERVATION), "{:?}", busy.remaining);
}

pub async fn a_reserved_key_is_busy_for_the_one_who_gave_it(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    give_to(world, &held, "bob").await;
    assert_eq!(world.busy(world.claim(held.key(), "ann")).await.reason, Reason::Reserved);
}

pub async fn a_reserved_key_is_granted_to_the_heir(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    give_to(world, &held, "bob").await;
    let next = world.hold(held.key(), "bob").await;
    assert!(next.generation() > held.generation());
    world.ends(held.key()).await.assert_after(next.sent, next.lease.ttl.as_duration());
}

pub async fn an_heir_goes_before_the_queue(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let mut cat = world.queue(held.key(), "cat").await;
    give_to(world, &held, "bob").await;
    assert!(cat.is_parked());
    let next = world.hold(held.key(), "bob").await;
    assert!(cat.is_parked());
    world.give_back(&next).await;
    cat.granted(world).await;
}

pub async fn a_reservation_ends_for_others_and_not_before(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let sent = world.now();
    give_to(world, &held, "bob").await;
    world
        .until("the reservation is over", || async {
            match world.acquire(world.claim(held.key(), "cat")).await {
                Acquired::Granted(_) => true,
                Acquired::Busy(busy) => {
                    assert_eq!(busy.reason, Reason::Reserved);
                    false
                }
            }
        })
        .await;
    let passed = world.now().since(sent) + super::time::ROUNDING;
    assert!(passed >= RESERVATION, "granted after {passed:?}");
}

pub async fn a_reservation_that_nobody_used_goes_to_the_queue(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let cat = world.queue(held.key(), "cat").await;
    let sent = world.now();
    give_to(world, &held, "bob").await;
    let next = cat.granted(world).await;
    let passed = next.told.since(sent) + super::time::ROUNDING;
    assert!(passed >= RESERVATION, "granted after {passed:?}");
    assert!(next.generation() > held.generation());
}

pub async fn a_reservation_that_nobody_used_is_free_again(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    give_to(world, &held, "bob").await;
    world.pass(RESERVATION + super::time::ROUNDING).await;
    let status = world.inspect(held.key()).await;
    assert_eq!((status.phase, status.holder), (Phase::Free, None));
}

pub async fn a_claim_may_wait_for_the_end_of_a_reservation(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    give_to(world, &held, "bob").await;
    let next = world.queue(held.key(), "cat").await.granted(world).await;
    assert!(next.parked);
}

pub async fn a_record_may_be_called_like_an_heir_whose_time_is_over(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    give_to(world, &held, "bob").await;
    world.until_free(held.key()).await;
    // Longer than any doubt about the end of the reservation lasts.
    world.pass(Duration::from_millis(1_500)).await;
    world.put(held.key(), "bob").await;
    world.assert_record(held.key(), Some("bob")).await;
    let found = said(world.store().discover(&world.prefix()).await);
    assert_eq!(found.iter().map(|record| record.key.clone()).collect::<Vec<_>>(), [held.key().clone()]);
}

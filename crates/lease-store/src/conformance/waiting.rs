//! The queue of a key.

use std::time::Duration;

use lease::{Acquired, Op, Reason, Renewed};

use super::record::put_for;
use super::{World, said};

pub async fn a_free_key_is_granted_without_waiting(world: &World) {
    let claim = world.claim(&world.key("k"), "ann").waiting(Duration::from_secs(60));
    let held = world.grant(claim).await;
    assert!(!held.parked);
}

pub async fn a_grant_from_the_queue_says_that_it_was_parked(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let bob = world.queue(held.key(), "bob").await;
    world.give_back(&held).await;
    let next = bob.granted(world).await;
    assert!(next.parked);
    assert!(next.generation() > held.generation());
    assert_eq!(next.lease.holder, world.holder("bob"));
}

pub async fn a_grant_from_the_queue_is_confirmed_by_a_renewal(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let bob = world.queue(held.key(), "bob").await;
    world.give_back(&held).await;
    let next = bob.granted(world).await;
    assert!(matches!(world.renew(&next).await, Renewed::Renewed { .. }));
    world.assert_live(&next).await;
}

pub async fn the_ttl_of_a_parked_claim_runs_from_the_grant(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let bob = world.queue(held.key(), "bob").await;
    world.pass(Duration::from_millis(200)).await;
    let sent = world.now();
    world.give_back(&held).await;
    let next = bob.granted(world).await;
    world.ends(held.key()).await.assert_after(sent, next.lease.ttl.as_duration());
}

pub async fn inspect_counts_those_who_wait(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let _bob = world.queue(held.key(), "bob").await;
    let _cat = world.park_at(world.second(), world.claim(held.key(), "cat")).await;
    assert_eq!(world.inspect(held.key()).await.waiters, 2);
    assert_eq!(said(world.second().inspect(held.key()).await).waiters, 2);
}

pub async fn a_wait_that_is_over_says_busy_and_its_place(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let _bob = world.queue(held.key(), "bob").await;
    let brief = world.claim(held.key(), "cat").waiting(Duration::from_millis(300));
    let busy = world.park(brief).await.busy(world).await;
    assert_eq!((busy.reason, busy.position), (Reason::Held, 2));
    assert_eq!(busy.holder, Some(world.holder("ann")));
    assert_eq!(busy.generation, Some(held.generation()));
}

pub async fn a_wait_that_is_over_was_as_long_as_asked(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let (wait, sent) = (Duration::from_millis(300), world.now());
    world.busy(world.claim(held.key(), "bob").waiting(wait)).await;
    assert!(world.now().since(sent) + super::time::ROUNDING >= wait);
}

pub async fn a_wait_that_is_over_leaves_no_waiter(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let claim = world.claim(held.key(), "bob").waiting(Duration::from_millis(100));
    world.busy(claim.clone()).await;
    assert_eq!(world.inspect(held.key()).await.waiters, 0);
    world.give_back(&held).await;
    let cat = world.hold(held.key(), "cat").await;
    world.give_back(&cat).await;
    // The claim that waited in vain spent nothing.
    world.grant(claim).await;
}

pub async fn a_wait_that_is_over_does_not_hold_up_the_next(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let brief = world.park(world.claim(held.key(), "bob").waiting(Duration::from_millis(300))).await;
    let cat = world.queue(held.key(), "cat").await;
    brief.busy(world).await;
    world.give_back(&held).await;
    assert_eq!(cat.granted(world).await.lease.holder, world.holder("cat"));
}

pub async fn a_wait_of_nothing_is_answered_at_once(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let busy = world.busy(world.claim(held.key(), "bob").waiting(Duration::ZERO)).await;
    assert_eq!((busy.reason, busy.position), (Reason::Held, 1));
    assert_eq!(world.inspect(held.key()).await.waiters, 0);
}

pub async fn an_expiry_wakes_the_head_of_the_queue(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let bob = world.queue(held.key(), "bob").await;
    let mut cat = world.queue(held.key(), "cat").await;
    world.expire(&held).await;
    let next = bob.granted(world).await;
    assert!(next.generation() > held.generation());
    assert!(cat.is_parked());
    world.assert_live(&next).await;
}

pub async fn nobody_overtakes_a_queue_at_a_release(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let bob = world.queue(held.key(), "bob").await;
    world.give_back(&held).await;
    let busy = world.busy(world.claim(held.key(), "cat")).await;
    assert!(matches!(busy.reason, Reason::Held | Reason::Queued), "{busy:?}");
    bob.granted(world).await;
}

pub async fn nobody_overtakes_a_queue_at_an_expiry(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let bob = world.queue(held.key(), "bob").await;
    said(world.store().renew(&[held.renewal(Some(world.ttl()))]).await);
    world
        .until("the waiter has the key", || async {
            match world.acquire(world.claim(held.key(), "cat")).await {
                Acquired::Granted(grant) => panic!("overtook the queue: {grant:?}"),
                Acquired::Busy(busy) => busy.holder == Some(world.holder("bob")),
            }
        })
        .await;
    bob.granted(world).await;
}

pub async fn nobody_overtakes_a_queue_after_a_stall(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let bob = world.queue(held.key(), "bob").await;
    said(world.store().renew(&[held.renewal(Some(world.ttl()))]).await);
    world.stall(world.ttl().as_duration() + super::time::ROUNDING).await;
    let busy = world.busy(world.claim(held.key(), "cat")).await;
    assert!(matches!(busy.reason, Reason::Held | Reason::Queued), "{busy:?}");
    assert!(bob.granted(world).await.generation() > held.generation());
}

pub async fn a_waiter_stays_parked_while_the_holder_renews(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let mut bob = world.queue(held.key(), "bob").await;
    for _ in 0..3 {
        world.pass(Duration::from_millis(50)).await;
        assert!(matches!(world.renew(&held).await, Renewed::Renewed { .. }));
    }
    assert!(bob.is_parked());
    world.assert_live(&held).await;
}

pub async fn the_holder_is_not_put_into_its_own_queue(world: &World) {
    let claim = world.claim(&world.key("k"), "ann");
    let held = world.grant(claim.clone()).await;
    let _bob = world.queue(held.key(), "bob").await;
    let again = world.grant(claim.waiting(Duration::from_secs(60))).await;
    assert_eq!(again.lease, held.lease);
}

pub async fn a_parked_duplicate_gets_the_same_lease(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let claim = world.claim(held.key(), "bob").waiting(Duration::from_secs(60));
    let first = world.park(claim.clone()).await;
    let second = world.second();
    let mut again = tokio::task::JoinSet::new();
    again.spawn(async move { second.acquire(claim).await });
    world.pass(Duration::from_millis(100)).await;
    world.give_back(&held).await;
    let next = first.granted(world).await;
    match world.within("the answer to the duplicate", again.join_next()).await {
        Some(Ok(Ok(Acquired::Granted(grant)))) => assert_eq!(grant.lease, next.lease),
        other => panic!("the duplicate got {other:?}"),
    }
}

pub async fn a_claim_waits_for_a_record_to_be_deleted(world: &World) {
    let key = world.key("k");
    world.put(&key, "1").await;
    let claim = world.claim(&key, "ann").waiting(Duration::from_secs(60));
    let deleted = async {
        world.pass(Duration::from_millis(100)).await;
        world.write(&[Op::Delete { key: key.clone() }]).await
    };
    let (held, _) = tokio::join!(world.grant(claim), deleted);
    assert!(held.parked);
    world.assert_live(&held).await;
    assert_eq!(world.inspect(&key).await.waiters, 0);
}

pub async fn a_claim_waits_for_the_ttl_of_a_record(world: &World) {
    let (key, sent) = (world.key("k"), world.now());
    world.write(&[put_for(&key, "1", world.ttl())]).await;
    let held = world.grant(world.claim(&key, "ann").waiting(Duration::from_secs(60))).await;
    assert!(held.told.since(sent) + super::time::ROUNDING >= world.ttl().as_duration());
    assert!(held.parked);
    world.assert_live(&held).await;
}

pub async fn a_wait_for_a_record_that_stays_is_over_in_time(world: &World) {
    let (key, wait, sent) = (world.key("k"), Duration::from_millis(300), world.now());
    world.put(&key, "1").await;
    let busy = world.busy(world.claim(&key, "ann").waiting(wait)).await;
    assert_eq!((busy.reason, busy.remaining), (Reason::Foreign, None));
    assert!(world.now().since(sent) + super::time::ROUNDING >= wait);
    assert_eq!(world.inspect(&key).await.waiters, 0);
    world.assert_record(&key, Some("1")).await;
}

//! Dropped futures leave nothing behind.

use std::pin::pin;

use lease::Acquired;

use super::{World, said};

pub async fn a_dropped_waiter_leaves_the_queue(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let bob = world.queue(held.key(), "bob").await;
    drop(bob);
    world.until_parked(held.key(), 0).await;
    world.give_back(&held).await;
    world.hold(held.key(), "cat").await;
}

pub async fn a_dropped_waiter_does_not_hold_up_the_next(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let mut claim = world.claim(held.key(), "bob");
    claim.ttl = world.orphan_ttl();
    let bob = world.park(claim).await;
    let cat = world.queue(held.key(), "cat").await;
    drop(bob);
    world.give_back(&held).await;
    assert_eq!(cat.granted(world).await.lease.holder, world.holder("cat"));
}

pub async fn a_waiter_dropped_when_it_was_granted_frees_the_key_for_the_next(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let store = world.store();
    let mut claim = world.claim(held.key(), "bob").waiting(world.long_ttl().as_duration());
    claim.ttl = world.orphan_ttl();
    let mut bob = Box::pin(store.acquire(claim));
    tokio::select! {
        biased;
        answer = &mut bob => panic!("the key is held: {answer:?}"),
        () = world.until_parked(held.key(), 1) => {}
    }
    let cat = world.queue(held.key(), "cat").await;
    // Bob is not polled any more: what the release gives it, it never sees.
    world.give_back(&held).await;
    drop(bob);
    assert_eq!(cat.granted(world).await.lease.holder, world.holder("cat"));
}

pub async fn a_waiter_dropped_when_it_was_granted_frees_the_key_for_anybody(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let store = world.store();
    let mut claim = world.claim(held.key(), "bob").waiting(world.long_ttl().as_duration());
    claim.ttl = world.orphan_ttl();
    let mut bob = Box::pin(store.acquire(claim));
    tokio::select! {
        biased;
        answer = &mut bob => panic!("the key is held: {answer:?}"),
        () = world.until_parked(held.key(), 1) => {}
    }
    world.give_back(&held).await;
    drop(bob);
    let cat = world.claim(held.key(), "cat").waiting(world.long_ttl().as_duration());
    assert_eq!(world.grant(cat).await.lease.holder, world.holder("cat"));
}

pub async fn a_waiter_dropped_while_it_is_granted_frees_the_key_for_the_next(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let store = world.store();
    let mut claim = world.claim(held.key(), "bob").waiting(world.long_ttl().as_duration());
    claim.ttl = world.orphan_ttl();
    let mut bob = Box::pin(store.acquire(claim));
    tokio::select! {
        biased;
        answer = &mut bob => panic!("the key is held: {answer:?}"),
        () = world.until_parked(held.key(), 1) => {}
    }
    let cat = world.queue(held.key(), "cat").await;
    let mut release = Box::pin(store.release(held.giving(None)));
    let answer = futures_util::poll!(&mut release);
    // The release is decided and not answered, or answered and not heard of by Bob.
    drop(bob);
    if answer.is_pending() {
        assert_eq!(said(release.await), lease::Released::Released);
    }
    assert_eq!(cat.granted(world).await.lease.holder, world.holder("cat"));
}

pub async fn an_acquire_dropped_on_its_way_leaves_nothing_held(world: &World) {
    let (key, store) = (world.key("k"), world.store());
    let mut claim = world.claim(&key, "ann");
    claim.ttl = world.orphan_ttl();
    {
        let mut acquire = pin!(store.acquire(claim.clone()));
        if let std::task::Poll::Ready(answer) = futures_util::poll!(&mut acquire) {
            // Answered at once, so nothing was on its way.
            assert!(matches!(said(answer), Acquired::Granted(_)));
            return;
        }
    }
    // It may still be on its way when the key looks free, so Bob waits for what becomes of it.
    let bob = world.claim(&key, "bob").waiting(world.long_ttl().as_duration());
    assert_eq!(world.grant(bob).await.lease.holder, world.holder("bob"));
}

pub async fn a_waiter_that_goes_leaves_the_queue_to_its_twin(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let (store, claim) = (world.store(), world.claim(held.key(), "bob"));
    let first = world.park(claim.clone()).await;
    let mut twin = Box::pin(store.acquire(claim.clone().waiting(world.long_ttl().as_duration())));
    assert!(futures_util::poll!(&mut twin).is_pending(), "the key is held");
    drop(first);
    world.give_back(&held).await;
    assert!(matches!(said(twin.await), Acquired::Granted(_)));
    assert_is_held(world, &claim).await;
}

pub async fn a_claim_dropped_on_its_way_takes_nothing_from_its_twin(world: &World) {
    let (key, store) = (world.key("k"), world.store());
    let claim = world.claim(&key, "ann");
    let mut first = Box::pin(store.acquire(claim.clone()));
    let _ = futures_util::poll!(&mut first);
    let mut twin = Box::pin(store.acquire(claim.clone()));
    let answer = match futures_util::poll!(&mut twin) {
        std::task::Poll::Ready(answer) => {
            drop(first);
            answer
        }
        std::task::Poll::Pending => {
            drop(first);
            twin.await
        }
    };
    assert!(matches!(said(answer), Acquired::Granted(_)));
    assert_is_held(world, &claim).await;
}

/// Whatever a claim that went away left to be done is done, and the one that was told holds.
async fn assert_is_held(world: &World, claim: &lease::Claim) {
    let other = world.hold(&world.key("other"), "cat").await;
    world.give_back(&other).await;
    let verified = said(world.store().verify(&claim.key, &claim.token).await);
    assert!(matches!(verified, lease::Verified::Live { .. }), "told that it holds, and: {verified:?}");
}

pub async fn a_dropped_renewal_loses_nothing(world: &World) {
    let (held, store) = (world.hold(&world.key("k"), "ann").await, world.store());
    {
        let items = [held.renewal(None)];
        let mut renew = pin!(store.renew(&items));
        let _ = futures_util::poll!(&mut renew);
    }
    world.assert_live(&held).await;
}

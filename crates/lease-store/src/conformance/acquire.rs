//! Who gets a key, and what the others are told.

use std::time::Duration;

use lease::{Acquired, Phase, Reason};

use super::{World, said};

/// Long enough to tell a refreshed lease from one that was left alone.
const WHILE: Duration = Duration::from_millis(200);

pub async fn a_free_key_is_granted(world: &World) {
    let claim = world.claim(&world.key("k"), "ann");
    let held = world.grant(claim.clone()).await;
    assert_eq!(held.lease.key, claim.key);
    assert_eq!(held.lease.holder, claim.holder);
    assert_eq!(held.lease.ttl, claim.ttl);
    assert!(!held.parked, "nobody had to wait");
    assert_eq!(world.inspect(&claim.key).await.phase, Phase::Held);
}

pub async fn a_grant_lasts_for_its_ttl(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let ends = world.ends(held.key()).await;
    ends.assert_after(held.sent, held.lease.ttl.as_duration());
    ends.assert_before(held.told, held.lease.ttl.as_duration());
}

pub async fn the_same_token_again_gets_the_same_generation(world: &World) {
    let claim = world.claim(&world.key("k"), "ann");
    let first = world.grant(claim.clone()).await;
    let again = world.grant(claim).await;
    assert_eq!(again.lease, first.lease);
}

pub async fn the_same_token_again_is_refreshed(world: &World) {
    let claim = world.claim(&world.key("k"), "ann");
    world.grant(claim.clone()).await;
    world.pass(WHILE).await;
    let again = world.grant(claim.clone()).await;
    world.ends(&claim.key).await.assert_after(again.sent, claim.ttl.as_duration());
}

pub async fn the_same_token_through_another_handle_gets_the_same_generation(world: &World) {
    let claim = world.claim(&world.key("k"), "ann");
    let first = world.grant(claim.clone()).await;
    let Acquired::Granted(again) = said(world.second().acquire(claim).await) else {
        panic!("the token holds the key")
    };
    assert_eq!(again.lease, first.lease);
}

pub async fn duplicates_at_the_same_time_get_one_generation(world: &World) {
    for round in 0..8 {
        let claim = world.claim(&world.key(&format!("k{round}")), "ann");
        let (one, two) = (world.store(), world.second());
        let both = tokio::join!(one.acquire(claim.clone()), two.acquire(claim.clone()));
        let (Acquired::Granted(a), Acquired::Granted(b)) = (said(both.0), said(both.1)) else {
            panic!("one token, one reign, two answers")
        };
        assert_eq!(a.lease, b.lease);
    }
}

pub async fn a_held_key_tells_who_holds_it(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let busy = world.busy(world.claim(held.key(), "bob")).await;
    assert_eq!(busy.reason, Reason::Held);
    assert_eq!(busy.holder, Some(world.holder("ann")));
    assert_eq!(busy.generation, Some(held.generation()));
}

pub async fn a_held_key_tells_how_long(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let asked = world.now();
    let Some(left) = world.busy(world.claim(held.key(), "bob")).await.remaining else {
        panic!("a lease has an end")
    };
    let ends = world.span(asked, left);
    ends.assert_after(held.sent, held.lease.ttl.as_duration());
    ends.assert_before(held.told, held.lease.ttl.as_duration());
}

pub async fn a_held_key_tells_the_place_in_the_queue(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    assert_eq!(world.busy(world.claim(held.key(), "bob")).await.position, 1);
    let _bob = world.queue(held.key(), "bob").await;
    let _cat = world.queue(held.key(), "cat").await;
    assert_eq!(world.busy(world.claim(held.key(), "dan")).await.position, 3);
}

pub async fn a_busy_answer_changes_nothing(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.pass(WHILE).await;
    world.busy(world.claim(held.key(), "bob")).await;
    world.assert_live(&held).await;
    world.ends(held.key()).await.assert_before(held.told, held.lease.ttl.as_duration());
    assert_eq!(world.inspect(held.key()).await.waiters, 0);
}

pub async fn the_same_holder_with_another_token_is_busy(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let busy = world.busy(world.claim(held.key(), "ann")).await;
    assert_eq!((busy.reason, busy.holder), (Reason::Held, Some(world.holder("ann"))));
    world.assert_live(&held).await;
}

pub async fn another_handle_sees_the_grant(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let answer = said(world.second().acquire(world.claim(held.key(), "bob")).await);
    let Acquired::Busy(busy) = answer else { panic!("two holders of one key: {answer:?}") };
    assert_eq!(busy.generation, Some(held.generation()));
}

pub async fn an_expired_key_is_granted_with_a_greater_generation(world: &World) {
    let held = world.hold_briefly(&world.key("k"), "ann").await;
    world.outlive(held.lease.ttl).await;
    let next = world.hold(held.key(), "bob").await;
    assert!(next.generation() > held.generation());
}

pub async fn the_same_token_after_expiry_starts_a_new_generation(world: &World) {
    let claim = world.brief_claim(&world.key("k"), "ann");
    let held = world.grant(claim.clone()).await;
    world.outlive(claim.ttl).await;
    let next = world.grant(claim).await;
    assert!(next.generation() > held.generation());
}

pub async fn a_live_key_is_not_granted_before_its_ttl_is_over(world: &World) {
    let held = world.hold_briefly(&world.key("k"), "ann").await;
    world
        .until("the key is granted to another", || async {
            matches!(world.acquire(world.claim(held.key(), "bob")).await, Acquired::Granted(_))
        })
        .await;
    let passed = world.now().since(held.sent) + super::time::ROUNDING;
    assert!(passed >= held.lease.ttl.as_duration(), "granted after {passed:?}");
}

pub async fn keys_do_not_touch_each_other(world: &World) {
    let ann = world.hold(&world.key("k"), "ann").await;
    let bob = world.hold(&world.key("k/1"), "bob").await;
    let cat = world.hold(&world.key("k1"), "cat").await;
    world.give_back(&bob).await;
    world.assert_live(&ann).await;
    world.assert_live(&cat).await;
}

//! Handing a key to a parked successor in one step.

use lease::{Phase, Transfer, Transferred};

use super::{World, said};

pub async fn a_transfer_grants_to_the_named_waiter(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let bob = world.queue(held.key(), "bob").await;
    let lease = world.hand_over(&held, "bob").await;
    assert_eq!((&lease.key, &lease.holder), (held.key(), &world.holder("bob")));
    assert!(lease.generation > held.generation());
    let next = bob.granted(world).await;
    assert_eq!(next.lease, lease);
    assert!(next.parked);
    world.assert_live(&next).await;
}

pub async fn a_transfer_is_done_when_it_is_answered(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let bob = world.queue(held.key(), "bob").await;
    let lease = world.hand_over(&held, "bob").await;
    let status = world.inspect(held.key()).await;
    assert_eq!((status.phase, status.holder), (Phase::Held, Some(world.holder("bob"))));
    assert_eq!(status.generation, Some(lease.generation));
    bob.granted(world).await;
}

pub async fn a_transfer_gives_the_successor_its_own_ttl(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let mut claim = world.claim(held.key(), "bob");
    claim.ttl = said(lease::Ttl::from_millis(world.long_ttl().as_millis() - 1_000));
    let bob = world.park(claim.clone()).await;
    let sent = world.now();
    assert_eq!(world.hand_over(&held, "bob").await.ttl, claim.ttl);
    bob.granted(world).await;
    world.ends(held.key()).await.assert_after(sent, claim.ttl.as_duration());
}

pub async fn a_transfer_reaches_into_the_middle_of_the_queue(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let mut bob = world.queue(held.key(), "bob").await;
    let cat = world.park_at(world.second(), world.claim(held.key(), "cat")).await;
    let mut dan = world.queue(held.key(), "dan").await;
    world.hand_over(&held, "cat").await;
    let second = cat.granted(world).await;
    assert!(bob.is_parked() && dan.is_parked());
    world.until_parked(held.key(), 2).await;
    // The others keep their order.
    world.give_back(&second).await;
    let third = bob.granted(world).await;
    assert!(dan.is_parked());
    world.give_back(&third).await;
    dan.granted(world).await;
}

pub async fn a_transfer_to_nobody_changes_nothing(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let mut cat = world.queue(held.key(), "cat").await;
    let transfer = held.handing(world.holder("bob"));
    assert_eq!(said(world.store().transfer(transfer).await), Transferred::NoSuccessor);
    world.assert_live(&held).await;
    assert!(cat.is_parked());
    assert!(matches!(world.renew(&held).await, lease::Renewed::Renewed { .. }));
}

pub async fn a_transfer_to_somebody_who_left_the_queue_changes_nothing(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    drop(world.queue(held.key(), "bob").await);
    world.until_parked(held.key(), 0).await;
    let transfer = held.handing(world.holder("bob"));
    assert_eq!(said(world.store().transfer(transfer).await), Transferred::NoSuccessor);
    world.assert_live(&held).await;
}

pub async fn a_transfer_to_somebody_parked_on_another_key_changes_nothing(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let other = world.hold(&world.key("other"), "ann").await;
    let mut bob = world.queue(other.key(), "bob").await;
    let transfer = held.handing(world.holder("bob"));
    assert_eq!(said(world.store().transfer(transfer).await), Transferred::NoSuccessor);
    world.assert_live(&held).await;
    assert!(bob.is_parked());
}

pub async fn only_the_holder_may_transfer(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let mut bob = world.queue(held.key(), "bob").await;
    let to = world.holder("bob");
    let wrong = [
        Transfer { token: world.token(), ..held.handing(to.clone()) },
        Transfer { generation: held.other_generation(), ..held.handing(to) },
    ];
    for transfer in wrong {
        assert_eq!(said(world.store().transfer(transfer).await), Transferred::NotHeld);
    }
    world.assert_live(&held).await;
    assert!(bob.is_parked());
}

pub async fn what_is_over_cannot_be_transferred(world: &World) {
    let released = world.hold(&world.key("a"), "ann").await;
    world.give_back(&released).await;
    let expired = world.hold_briefly(&world.key("b"), "ann").await;
    world.outlive(expired.lease.ttl).await;
    for held in [released, expired] {
        let transfer = held.handing(world.holder("bob"));
        assert_eq!(said(world.store().transfer(transfer).await), Transferred::NotHeld);
        assert_eq!(world.inspect(held.key()).await.phase, Phase::Free);
    }
}

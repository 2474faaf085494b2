//! Ending everything under a prefix, with the gate's proof.

use lease::{End, Phase, Proof, Renewed, Wipe, Wiped};

use super::{Held, World, said};

async fn wipe(world: &World, prefix: &str, proof: Proof) -> Wiped {
    said(world.store().wipe(Wipe { prefix: world.under(prefix), gate: proof }).await)
}

async fn tenants(world: &World) -> [Held; 2] {
    [world.hold(&world.key("t/1"), "ann").await, world.hold(&world.key("t/2"), "bob").await]
}

pub async fn a_wrong_token_wipes_nothing(world: &World) {
    let (gate, tenants) = (world.hold(&world.key("gate"), "op").await, tenants(world).await);
    let wrong = Proof { token: world.token(), ..gate.proof() };
    assert_eq!(wipe(world, "t/", wrong).await, Wiped::Unproven);
    for held in tenants {
        world.assert_live(&held).await;
    }
}

pub async fn a_wrong_generation_wipes_nothing(world: &World) {
    let (gate, tenants) = (world.hold(&world.key("gate"), "op").await, tenants(world).await);
    let wrong = Proof { generation: gate.other_generation(), ..gate.proof() };
    assert_eq!(wipe(world, "t/", wrong).await, Wiped::Unproven);
    for held in tenants {
        world.assert_live(&held).await;
    }
}

pub async fn an_expired_gate_wipes_nothing(world: &World) {
    let (gate, tenants) = (world.hold_briefly(&world.key("gate"), "op").await, tenants(world).await);
    world.outlive(gate.lease.ttl).await;
    assert_eq!(wipe(world, "t/", gate.proof()).await, Wiped::Unproven);
    for held in tenants {
        world.assert_live(&held).await;
    }
}

pub async fn a_gate_that_was_given_back_wipes_nothing(world: &World) {
    let (gate, tenants) = (world.hold(&world.key("gate"), "op").await, tenants(world).await);
    world.give_back(&gate).await;
    assert_eq!(wipe(world, "t/", gate.proof()).await, Wiped::Unproven);
    let successor = world.hold(gate.key(), "op").await;
    assert_eq!(wipe(world, "t/", gate.proof()).await, Wiped::Unproven);
    world.assert_live(&successor).await;
    for held in tenants {
        world.assert_live(&held).await;
    }
}

pub async fn a_proven_wipe_ends_everything_under_the_prefix(world: &World) {
    let (gate, tenants) = (world.hold(&world.key("gate"), "op").await, tenants(world).await);
    assert_eq!(wipe(world, "t/", gate.proof()).await, Wiped::Wiped { count: 2 });
    for held in tenants {
        assert_eq!(world.renew(&held).await, Renewed::Lost(End::Wiped));
        assert_eq!(world.inspect(held.key()).await.phase, Phase::Free);
    }
}

pub async fn a_wipe_keeps_to_its_prefix(world: &World) {
    let gate = world.hold(&world.key("gate"), "op").await;
    let inside = world.hold(&world.key("t/1"), "ann").await;
    let outside = [world.hold(&world.key("t"), "bob").await, world.hold(&world.key("u/1"), "cat").await];
    assert_eq!(wipe(world, "t/", gate.proof()).await, Wiped::Wiped { count: 1 });
    assert_eq!(world.inspect(inside.key()).await.phase, Phase::Free);
    for held in outside {
        world.assert_live(&held).await;
    }
}

pub async fn a_wipe_spares_its_gate(world: &World) {
    let (gate, _tenants) = (world.hold(&world.key("gate"), "op").await, tenants(world).await);
    assert_eq!(wipe(world, "", gate.proof()).await, Wiped::Wiped { count: 2 });
    world.assert_live(&gate).await;
    assert_eq!(wipe(world, "", gate.proof()).await, Wiped::Wiped { count: 0 });
}

pub async fn a_wipe_leaves_generations_alone(world: &World) {
    let (gate, tenants) = (world.hold(&world.key("gate"), "op").await, tenants(world).await);
    wipe(world, "t/", gate.proof()).await;
    for held in tenants {
        assert_eq!(world.inspect(held.key()).await.generation, Some(held.generation()));
        let next = world.hold(held.key(), "dan").await;
        assert!(next.generation() > held.generation());
    }
}

pub async fn a_wipe_does_not_touch_what_comes_after(world: &World) {
    let (gate, tenants) = (world.hold(&world.key("gate"), "op").await, tenants(world).await);
    wipe(world, "t/", gate.proof()).await;
    let next = world.hold(tenants[0].key(), "dan").await;
    assert!(matches!(world.renew(&next).await, Renewed::Renewed { .. }));
    world.assert_live(&next).await;
}

pub async fn a_wipe_counts_only_what_was_live(world: &World) {
    let (gate, [one, _two]) = (world.hold(&world.key("gate"), "op").await, tenants(world).await);
    world.expire(&one).await;
    assert_eq!(wipe(world, "t/", gate.proof()).await, Wiped::Wiped { count: 1 });
    assert_eq!(world.renew(&one).await, Renewed::Lost(End::Expired));
}

pub async fn a_wipe_leaves_records_alone(world: &World) {
    let gate = world.hold(&world.key("gate"), "op").await;
    let record = world.key("t/record");
    world.put(&record, "kept").await;
    assert_eq!(wipe(world, "t/", gate.proof()).await, Wiped::Wiped { count: 0 });
    world.assert_record(&record, Some("kept")).await;
}

pub async fn a_wiped_key_goes_to_the_head_of_its_queue(world: &World) {
    let gate = world.hold(&world.key("gate"), "op").await;
    let held = world.hold(&world.key("t/1"), "ann").await;
    let bob = world.queue(held.key(), "bob").await;
    let mut cat = world.queue(held.key(), "cat").await;
    assert_eq!(wipe(world, "t/", gate.proof()).await, Wiped::Wiped { count: 1 });
    let next = bob.granted(world).await;
    assert!(next.parked && next.generation() > held.generation());
    assert!(cat.is_parked());
    world.assert_live(&next).await;
}

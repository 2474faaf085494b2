//! Ending everything under a prefix, with the gate's proof.

use tenure_lease::{End, Phase, Proof, Renewed, Wipe, Wiped};

use super::{Harness, HeldLease, expect_ok};

async fn wipe(harness: &Harness, prefix: &str, proof: Proof) -> Wiped {
    expect_ok(harness.store().wipe(Wipe { prefix: harness.under(prefix), gate: proof }).await)
}

async fn tenants(harness: &Harness) -> [HeldLease; 2] {
    [harness.hold(&harness.key("t/1"), "ann").await, harness.hold(&harness.key("t/2"), "bob").await]
}

pub async fn a_wrong_token_wipes_nothing(harness: &Harness) {
    let (gate, tenants) = (harness.hold(&harness.key("gate"), "op").await, tenants(harness).await);
    let wrong = Proof { token: harness.token(), ..gate.proof() };
    assert_eq!(wipe(harness, "t/", wrong).await, Wiped::Unproven);
    for held in tenants {
        harness.assert_live(&held).await;
    }
}

pub async fn a_wrong_generation_wipes_nothing(harness: &Harness) {
    let (gate, tenants) = (harness.hold(&harness.key("gate"), "op").await, tenants(harness).await);
    let wrong = Proof { generation: gate.other_generation(), ..gate.proof() };
    assert_eq!(wipe(harness, "t/", wrong).await, Wiped::Unproven);
    for held in tenants {
        harness.assert_live(&held).await;
    }
}

pub async fn an_expired_gate_wipes_nothing(harness: &Harness) {
    let (gate, tenants) = (harness.hold_briefly(&harness.key("gate"), "op").await, tenants(harness).await);
    harness.outlive(gate.lease.ttl).await;
    assert_eq!(wipe(harness, "t/", gate.proof()).await, Wiped::Unproven);
    for held in tenants {
        harness.assert_live(&held).await;
    }
}

pub async fn a_released_gate_wipes_nothing(harness: &Harness) {
    let (gate, tenants) = (harness.hold(&harness.key("gate"), "op").await, tenants(harness).await);
    harness.release_held(&gate).await;
    assert_eq!(wipe(harness, "t/", gate.proof()).await, Wiped::Unproven);
    let successor = harness.hold(gate.key(), "op").await;
    assert_eq!(wipe(harness, "t/", gate.proof()).await, Wiped::Unproven);
    harness.assert_live(&successor).await;
    for held in tenants {
        harness.assert_live(&held).await;
    }
}

pub async fn a_proven_wipe_ends_everything_under_the_prefix(harness: &Harness) {
    let (gate, tenants) = (harness.hold(&harness.key("gate"), "op").await, tenants(harness).await);
    assert_eq!(wipe(harness, "t/", gate.proof()).await, Wiped::Wiped { count: 2 });
    for held in tenants {
        assert_eq!(harness.renew(&held).await, Renewed::Lost(End::Wiped));
        assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
    }
}

pub async fn a_wipe_keeps_to_its_prefix(harness: &Harness) {
    let gate = harness.hold(&harness.key("gate"), "op").await;
    let inside = harness.hold(&harness.key("t/1"), "ann").await;
    let outside =
        [harness.hold(&harness.key("t"), "bob").await, harness.hold(&harness.key("u/1"), "cat").await];
    assert_eq!(wipe(harness, "t/", gate.proof()).await, Wiped::Wiped { count: 1 });
    assert_eq!(harness.inspect(inside.key()).await.phase, Phase::Free);
    for held in outside {
        harness.assert_live(&held).await;
    }
}

pub async fn a_wipe_spares_its_gate(harness: &Harness) {
    let (gate, _tenants) = (harness.hold(&harness.key("gate"), "op").await, tenants(harness).await);
    assert_eq!(wipe(harness, "", gate.proof()).await, Wiped::Wiped { count: 2 });
    harness.assert_live(&gate).await;
    assert_eq!(wipe(harness, "", gate.proof()).await, Wiped::Wiped { count: 0 });
}

pub async fn a_wipe_leaves_generations_alone(harness: &Harness) {
    let (gate, tenants) = (harness.hold(&harness.key("gate"), "op").await, tenants(harness).await);
    wipe(harness, "t/", gate.proof()).await;
    for held in tenants {
        assert_eq!(harness.inspect(held.key()).await.generation, Some(held.generation()));
        let next = harness.hold(held.key(), "dan").await;
        assert!(next.generation() > held.generation());
    }
}

pub async fn a_wipe_does_not_affect_later_leases(harness: &Harness) {
    let (gate, tenants) = (harness.hold(&harness.key("gate"), "op").await, tenants(harness).await);
    wipe(harness, "t/", gate.proof()).await;
    let next = harness.hold(tenants[0].key(), "dan").await;
    assert!(matches!(harness.renew(&next).await, Renewed::Renewed { .. }));
    harness.assert_live(&next).await;
}

pub async fn a_wipe_counts_only_what_was_live(harness: &Harness) {
    let (gate, [one, _two]) = (harness.hold(&harness.key("gate"), "op").await, tenants(harness).await);
    harness.expire(&one).await;
    assert_eq!(wipe(harness, "t/", gate.proof()).await, Wiped::Wiped { count: 1 });
    assert_eq!(harness.renew(&one).await, Renewed::Lost(End::Expired));
}

pub async fn a_wipe_leaves_records_alone(harness: &Harness) {
    let gate = harness.hold(&harness.key("gate"), "op").await;
    let record = harness.key("t/record");
    harness.put(&record, "kept").await;
    assert_eq!(wipe(harness, "t/", gate.proof()).await, Wiped::Wiped { count: 0 });
    harness.assert_record(&record, Some("kept")).await;
}

pub async fn a_wiped_key_goes_to_the_head_of_its_queue(harness: &Harness) {
    let gate = harness.hold(&harness.key("gate"), "op").await;
    let held = harness.hold(&harness.key("t/1"), "ann").await;
    let bob = harness.queue(held.key(), "bob").await;
    let mut cat = harness.queue(held.key(), "cat").await;
    assert_eq!(wipe(harness, "t/", gate.proof()).await, Wiped::Wiped { count: 1 });
    let next = bob.granted(harness).await;
    assert!(next.parked && next.generation() > held.generation());
    assert!(cat.is_parked());
    harness.assert_live(&next).await;
}

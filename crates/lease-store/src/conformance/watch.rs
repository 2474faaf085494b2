//! What watchers see, and in which order.

use std::time::Duration;

use lease::{End, Op, Verb, Wipe};

use super::ask::{append, put};
use super::{World, said};

pub async fn a_grant_and_its_end_are_seen(world: &World) {
    let mut tail = world.watch(&world.prefix(), None).await;
    let held = world.hold(&world.key("k"), "ann").await;
    let granted = tail.granted(world, &held).await;
    world.give_back(&held).await;
    let ended = tail.ended(world, &held, End::Released).await;
    assert!(ended.revision > granted.revision);
}

pub async fn a_watch_begins_now_when_it_begins_nowhere(world: &World) {
    for _ in 0..32 {
        // What was answered before the watch is in its past.
        let early = world.hold(&world.key("k"), "ann").await;
        let mut tail = world.watch(&world.prefix(), None).await;
        world.give_back(&early).await;
        tail.ended(world, &early, End::Released).await;
    }
}

pub async fn a_renewal_is_not_seen(world: &World) {
    let claim = world.claim(&world.key("k"), "ann");
    let held = world.grant(claim.clone()).await;
    let mut tail = world.watch(&world.prefix(), None).await;
    world.renew(&held).await;
    world.grant(claim).await;
    world.give_back(&held).await;
    tail.ended(world, &held, End::Released).await;
}

pub async fn what_changes_nothing_is_not_seen(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let mut tail = world.watch(&world.prefix(), None).await;
    world.busy(world.claim(held.key(), "bob")).await;
    said(world.store().transfer(held.handing(world.holder("bob"))).await);
    world.give_back(&held).await;
    said(world.store().release(held.giving(None)).await);
    tail.ended(world, &held, End::Released).await;
    let next = world.hold(held.key(), "bob").await;
    tail.granted(world, &next).await;
}

pub async fn a_watch_keeps_to_its_prefix(world: &World) {
    let mut tail = world.watch(&world.under("t/"), None).await;
    world.hold(&world.key("u/1"), "ann").await;
    world.hold(&world.key("t"), "ann").await;
    let inside = world.hold(&world.key("t/1"), "bob").await;
    tail.granted(world, &inside).await;
}

pub async fn the_end_comes_before_the_next_grant(world: &World) {
    let (gate, key) = (world.hold(&world.key("gate"), "op").await, world.key("t/1"));
    let mut tail = world.watch(&world.under("t/"), None).await;
    let one = world.hold(&key, "ann").await;
    let heir = world.queue(&key, "bob").await;
    world.hand_over(&one, "bob").await;
    let two = heir.granted(world).await;
    let three = world.replace(&two, "cat").await;
    world.revoke(&three, Some(Duration::ZERO)).await;
    let four = world.hold(&key, "dan").await;
    let waiter = world.queue(&key, "eve").await;
    world.give_back(&four).await;
    let five = waiter.granted(world).await;
    said(world.store().wipe(Wipe { prefix: world.under("t/"), gate: gate.proof() }).await);
    let reigns = [
        (&one, End::Transferred),
        (&two, End::Superseded),
        (&three, End::Revoked),
        (&four, End::Released),
        (&five, End::Wiped),
    ];
    let mut last = lease::Revision::default();
    for (held, end) in reigns {
        let (granted, ended) = (tail.granted(world, held).await, tail.ended(world, held, end).await);
        assert!(last < granted.revision && granted.revision < ended.revision, "{granted:?} {ended:?}");
        last = ended.revision;
    }
}

pub async fn an_expiry_is_seen_within_the_lag(world: &World) {
    let mut tail = world.watch(&world.prefix(), None).await;
    let held = world.hold_briefly(&world.key("k"), "ann").await;
    tail.granted(world, &held).await;
    tail.ended(world, &held, End::Expired).await;
    let passed = world.now().since(held.told);
    let slack = Duration::from_millis(if world.virtual_time() { 20 } else { 2_000 });
    let most = held.lease.ttl.as_duration() + world.capabilities().expiry_lag + slack;
    assert!(passed <= most, "seen {passed:?} after the grant");
}

pub async fn an_expiry_is_not_seen_early(world: &World) {
    let mut tail = world.watch(&world.prefix(), None).await;
    let held = world.hold_briefly(&world.key("k"), "ann").await;
    tail.granted(world, &held).await;
    tail.ended(world, &held, End::Expired).await;
    let passed = world.now().since(held.sent) + super::time::ROUNDING;
    assert!(passed >= held.lease.ttl.as_duration(), "seen after {passed:?}");
}

pub async fn a_replaced_expiry_is_seen_before_the_grant(world: &World) {
    let mut tail = world.watch(&world.prefix(), None).await;
    let held = world.hold_briefly(&world.key("k"), "ann").await;
    world.outlive(held.lease.ttl).await;
    let next = world.hold(held.key(), "bob").await;
    tail.granted(world, &held).await;
    tail.ended(world, &held, End::Expired).await;
    tail.granted(world, &next).await;
}

pub async fn records_are_seen_too(world: &World) {
    let (key, mut tail) = (world.key("r"), world.watch(&world.prefix(), None).await);
    let revision = world.put(&key, "1").await;
    let written = tail.next(world).await;
    assert_eq!((&written.key, written.verb), (&key, Verb::Written));
    assert_eq!(written.revision, revision);
    assert_eq!((written.holder, written.generation), (None, None));
    world.write(&[Op::Delete { key: key.clone() }]).await;
    let deleted = tail.next(world).await;
    assert_eq!((&deleted.key, deleted.verb), (&key, Verb::Deleted));
    assert!(deleted.revision > written.revision);
}

pub async fn an_entry_of_a_log_is_not_seen(world: &World) {
    let (log, key) = (world.key("log"), world.key("r"));
    let mut tail = world.watch(&world.prefix(), None).await;
    let appended = world.write(&[append(&log, "1", 10)]).await;
    // Whoever goes on from there has missed nothing.
    let mut later = world.watch(&world.prefix(), Some(appended)).await;
    tokio::select! {
        biased;
        watched = later.watched(world) => panic!("nothing happened since: {watched:?}"),
        () = world.pass(Duration::from_millis(20)) => {}
    }
    let revision = world.write(&[put(&key, "1"), append(&log, "2", 10)]).await;
    for tail in [&mut tail, &mut later] {
        let written = tail.next(world).await;
        assert_eq!((&written.key, written.verb, written.revision), (&key, Verb::Written, revision));
    }
    world.write(&[append(&log, "3", 10)]).await;
    let held = world.hold(&world.key("k"), "ann").await;
    tail.granted(world, &held).await;
}

pub async fn a_delete_of_nothing_is_not_seen(world: &World) {
    let (key, mut tail) = (world.key("r"), world.watch(&world.prefix(), None).await);
    world.write(&[Op::Delete { key: key.clone() }]).await;
    world.put(&key, "1").await;
    assert_eq!(tail.next(world).await.verb, Verb::Written);
    for _ in 0..2 {
        world.write(&[Op::Delete { key: key.clone() }]).await;
    }
    assert_eq!(tail.next(world).await.verb, Verb::Deleted);
    let held = world.hold(&key, "ann").await;
    tail.granted(world, &held).await;
}

pub async fn all_watchers_see_the_same(world: &World) {
    let mut one = world.watch(&world.prefix(), None).await;
    let mut two = world.watch(&world.prefix(), None).await;
    for name in ["a", "b"] {
        let held = world.hold(&world.key(name), "ann").await;
        world.give_back(&held).await;
    }
    assert_eq!(one.take(world, 4).await, two.take(world, 4).await);
}

pub async fn changes_through_another_handle_are_seen(world: &World) {
    let mut tail = world.watch(&world.prefix(), None).await;
    let held = world.hold(&world.key("k"), "ann").await;
    said(world.second().release(held.giving(None)).await);
    tail.granted(world, &held).await;
    tail.ended(world, &held, End::Released).await;
}

pub async fn a_dropped_next_loses_nothing(world: &World) {
    let mut tail = world.watch(&world.prefix(), None).await;
    for _ in 0..3 {
        tokio::select! {
            biased;
            event = tail.next(world) => panic!("nothing happened yet: {event:?}"),
            () = world.pass(Duration::from_millis(20)) => {}
        }
    }
    let held = world.hold(&world.key("k"), "ann").await;
    tail.granted(world, &held).await;
}

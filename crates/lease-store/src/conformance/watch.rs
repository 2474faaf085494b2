//! What watchers see, and in which order.

use std::time::Duration;

use tenure_lease::{End, Op, Verb, Wipe};

use super::verbs::{append, put};
use super::{Harness, expect_ok};

pub async fn a_grant_and_its_end_are_seen(harness: &Harness) {
    let mut tail = harness.watch(&harness.prefix(), None).await;
    let held = harness.hold(&harness.key("k"), "ann").await;
    let granted = tail.granted(harness, &held).await;
    harness.release_held(&held).await;
    let ended = tail.ended(harness, &held, End::Released).await;
    assert!(ended.revision > granted.revision);
}

pub async fn a_watch_without_a_revision_starts_now(harness: &Harness) {
    for _ in 0..32 {
        // What was answered before the watch is in its past.
        let early = harness.hold(&harness.key("k"), "ann").await;
        let mut tail = harness.watch(&harness.prefix(), None).await;
        harness.release_held(&early).await;
        tail.ended(harness, &early, End::Released).await;
    }
}

pub async fn a_renewal_is_not_seen(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann");
    let held = harness.grant(claim.clone()).await;
    let mut tail = harness.watch(&harness.prefix(), None).await;
    harness.renew(&held).await;
    harness.grant(claim).await;
    harness.release_held(&held).await;
    tail.ended(harness, &held, End::Released).await;
}

pub async fn a_call_without_effect_is_not_seen(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let mut tail = harness.watch(&harness.prefix(), None).await;
    harness.busy(harness.claim(held.key(), "bob")).await;
    expect_ok(harness.store().transfer(held.transfer(harness.holder("bob"))).await);
    harness.release_held(&held).await;
    expect_ok(harness.store().release(held.release(None)).await);
    tail.ended(harness, &held, End::Released).await;
    let next = harness.hold(held.key(), "bob").await;
    tail.granted(harness, &next).await;
}

pub async fn a_watch_keeps_to_its_prefix(harness: &Harness) {
    let mut tail = harness.watch(&harness.under("t/"), None).await;
    harness.hold(&harness.key("u/1"), "ann").await;
    harness.hold(&harness.key("t"), "ann").await;
    let inside = harness.hold(&harness.key("t/1"), "bob").await;
    tail.granted(harness, &inside).await;
}

pub async fn the_end_comes_before_the_next_grant(harness: &Harness) {
    let (gate, key) = (harness.hold(&harness.key("gate"), "op").await, harness.key("t/1"));
    let mut tail = harness.watch(&harness.under("t/"), None).await;
    let one = harness.hold(&key, "ann").await;
    let successor = harness.queue(&key, "bob").await;
    harness.transfer_held(&one, "bob").await;
    let two = successor.granted(harness).await;
    let three = harness.replace(&two, "cat").await;
    harness.revoke(&three, Some(Duration::ZERO)).await;
    let four = harness.hold(&key, "dan").await;
    let waiter = harness.queue(&key, "eve").await;
    harness.release_held(&four).await;
    let five = waiter.granted(harness).await;
    expect_ok(harness.store().wipe(Wipe { prefix: harness.under("t/"), gate: gate.proof() }).await);
    let reigns = [
        (&one, End::Transferred),
        (&two, End::Superseded),
        (&three, End::Revoked),
        (&four, End::Released),
        (&five, End::Wiped),
    ];
    let mut last = tenure_lease::Revision::default();
    for (held, end) in reigns {
        let (granted, ended) = (tail.granted(harness, held).await, tail.ended(harness, held, end).await);
        assert!(last < granted.revision && granted.revision < ended.revision, "{granted:?} {ended:?}");
        last = ended.revision;
    }
}

pub async fn an_expiry_is_seen_within_the_lag(harness: &Harness) {
    let mut tail = harness.watch(&harness.prefix(), None).await;
    let held = harness.hold_briefly(&harness.key("k"), "ann").await;
    tail.granted(harness, &held).await;
    tail.ended(harness, &held, End::Expired).await;
    let passed = harness.now().since(held.answered);
    let slack = Duration::from_millis(if harness.virtual_time() { 20 } else { 2_000 });
    let most = held.lease.ttl.as_duration() + harness.capabilities().expiry_lag + slack;
    assert!(passed <= most, "seen {passed:?} after the grant");
}

pub async fn an_expiry_is_not_seen_early(harness: &Harness) {
    let mut tail = harness.watch(&harness.prefix(), None).await;
    let held = harness.hold_briefly(&harness.key("k"), "ann").await;
    tail.granted(harness, &held).await;
    tail.ended(harness, &held, End::Expired).await;
    let passed = harness.now().since(held.sent) + super::time::ROUNDING;
    assert!(passed >= held.lease.ttl.as_duration(), "seen after {passed:?}");
}

pub async fn a_replaced_expiry_is_seen_before_the_grant(harness: &Harness) {
    let mut tail = harness.watch(&harness.prefix(), None).await;
    let held = harness.hold_briefly(&harness.key("k"), "ann").await;
    harness.outlive(held.lease.ttl).await;
    let next = harness.hold(held.key(), "bob").await;
    tail.granted(harness, &held).await;
    tail.ended(harness, &held, End::Expired).await;
    tail.granted(harness, &next).await;
}

pub async fn records_are_seen_too(harness: &Harness) {
    let (key, mut tail) = (harness.key("r"), harness.watch(&harness.prefix(), None).await);
    let revision = harness.put(&key, "1").await;
    let written = tail.next(harness).await;
    assert_eq!((&written.key, written.verb), (&key, Verb::Written));
    assert_eq!(written.revision, revision);
    assert_eq!((written.holder, written.generation), (None, None));
    harness.write(&[Op::Delete { key: key.clone() }]).await;
    let deleted = tail.next(harness).await;
    assert_eq!((&deleted.key, deleted.verb), (&key, Verb::Deleted));
    assert!(deleted.revision > written.revision);
}

pub async fn an_entry_of_a_log_is_not_seen(harness: &Harness) {
    let (log, key) = (harness.key("log"), harness.key("r"));
    let mut tail = harness.watch(&harness.prefix(), None).await;
    let appended = harness.write(&[append(&log, "1", 10)]).await;
    // A watch that resumes from there has missed nothing.
    let mut later = harness.watch(&harness.prefix(), Some(appended)).await;
    tokio::select! {
        biased;
        watched = later.watched(harness) => panic!("nothing happened since: {watched:?}"),
        () = harness.pass(Duration::from_millis(20)) => {}
    }
    let revision = harness.write(&[put(&key, "1"), append(&log, "2", 10)]).await;
    for tail in [&mut tail, &mut later] {
        let written = tail.next(harness).await;
        assert_eq!((&written.key, written.verb, written.revision), (&key, Verb::Written, revision));
    }
    harness.write(&[append(&log, "3", 10)]).await;
    let held = harness.hold(&harness.key("k"), "ann").await;
    tail.granted(harness, &held).await;
}

pub async fn a_delete_of_nothing_is_not_seen(harness: &Harness) {
    let (key, mut tail) = (harness.key("r"), harness.watch(&harness.prefix(), None).await);
    harness.write(&[Op::Delete { key: key.clone() }]).await;
    harness.put(&key, "1").await;
    assert_eq!(tail.next(harness).await.verb, Verb::Written);
    for _ in 0..2 {
        harness.write(&[Op::Delete { key: key.clone() }]).await;
    }
    assert_eq!(tail.next(harness).await.verb, Verb::Deleted);
    let held = harness.hold(&key, "ann").await;
    tail.granted(harness, &held).await;
}

pub async fn all_watchers_see_the_same(harness: &Harness) {
    let mut one = harness.watch(&harness.prefix(), None).await;
    let mut two = harness.watch(&harness.prefix(), None).await;
    for name in ["a", "b"] {
        let held = harness.hold(&harness.key(name), "ann").await;
        harness.release_held(&held).await;
    }
    assert_eq!(one.take(harness, 4).await, two.take(harness, 4).await);
}

pub async fn changes_through_another_handle_are_seen(harness: &Harness) {
    let mut tail = harness.watch(&harness.prefix(), None).await;
    let held = harness.hold(&harness.key("k"), "ann").await;
    expect_ok(harness.second().release(held.release(None)).await);
    tail.granted(harness, &held).await;
    tail.ended(harness, &held, End::Released).await;
}

pub async fn a_dropped_next_loses_nothing(harness: &Harness) {
    let mut tail = harness.watch(&harness.prefix(), None).await;
    for _ in 0..3 {
        tokio::select! {
            biased;
            event = tail.next(harness) => panic!("nothing happened yet: {event:?}"),
            () = harness.pass(Duration::from_millis(20)) => {}
        }
    }
    let held = harness.hold(&harness.key("k"), "ann").await;
    tail.granted(harness, &held).await;
}

//! The last reigns of a key.

use std::time::Duration;

use tenure_lease::{End, Generation, Key, Reign, Wipe, limits};

use super::{Harness, HeldLease, expect_ok};

async fn history(harness: &Harness, key: &Key) -> Vec<Reign> {
    let reigns = expect_ok(harness.store().history(key).await);
    for reign in &reigns {
        assert_eq!(reign.until.is_some(), reign.end.is_some(), "{reign:?}");
        assert!(reign.until.is_none_or(|until| reign.from <= until), "{reign:?}");
    }
    for pair in reigns.windows(2) {
        assert!(pair[0].generation < pair[1].generation, "oldest first: {reigns:?}");
        assert!(pair[0].until.is_some_and(|until| until <= pair[1].from), "one after the other: {pair:?}");
    }
    reigns
}

#[track_caller]
fn assert_reign(reign: &Reign, held: &HeldLease, end: Option<End>) {
    assert_eq!((&reign.holder, reign.generation), (&held.lease.holder, held.generation()));
    assert_eq!(reign.end, end, "{reign:?}");
}

pub async fn a_key_that_was_never_held_has_no_history(harness: &Harness) {
    assert_eq!(history(harness, &harness.key("k")).await, []);
}

pub async fn the_running_reign_is_the_last_and_has_no_end(harness: &Harness) {
    let first = harness.hold(&harness.key("k"), "ann").await;
    harness.release_held(&first).await;
    let second = harness.hold(first.key(), "bob").await;
    let reigns = history(harness, first.key()).await;
    assert_eq!(reigns.len(), 2);
    assert_reign(&reigns[0], &first, Some(End::Released));
    assert_reign(&reigns[1], &second, None);
}

pub async fn a_history_says_why_each_reign_ended(harness: &Harness) {
    let (gate, key) = (harness.hold(&harness.key("gate"), "op").await, harness.key("t/1"));
    let released = harness.hold(&key, "ann").await;
    harness.release_held(&released).await;
    let transferred = harness.hold(&key, "bob").await;
    let successor = harness.queue(&key, "cat").await;
    harness.transfer_held(&transferred, "cat").await;
    let superseded = successor.granted(harness).await;
    let revoked = harness.replace(&superseded, "dan").await;
    harness.revoke(&revoked, Some(Duration::ZERO)).await;
    let wiped = harness.hold(&key, "eve").await;
    expect_ok(harness.store().wipe(Wipe { prefix: harness.under("t/"), gate: gate.proof() }).await);
    let running = harness.hold(&key, "fay").await;
    let expected = [
        (&released, Some(End::Released)),
        (&transferred, Some(End::Transferred)),
        (&superseded, Some(End::Superseded)),
        (&revoked, Some(End::Revoked)),
        (&wiped, Some(End::Wiped)),
        (&running, None),
    ];
    let reigns = history(harness, &key).await;
    assert_eq!(reigns.len(), expected.len(), "{reigns:?}");
    for (reign, (held, end)) in reigns.iter().zip(expected) {
        assert_reign(reign, held, end);
    }
}

pub async fn an_expiry_is_in_the_history_within_the_lag(harness: &Harness) {
    let mut tail = harness.watch(&harness.prefix(), None).await;
    let held = harness.hold_briefly(&harness.key("k"), "ann").await;
    // Nothing is read until the end was written: a read of the history would end the reign itself.
    tail.granted(harness, &held).await;
    let ended = tail.ended(harness, &held, End::Expired).await;
    let reigns = history(harness, held.key()).await;
    assert_eq!(reigns.len(), 1);
    assert_reign(&reigns[0], &held, Some(End::Expired));
    assert_eq!(
        reigns[0].until,
        Some(ended.at),
        "the history has the end that was seen, not that of the read"
    );
}

pub async fn an_expired_reign_ends_before_the_next_begins(harness: &Harness) {
    let first = harness.hold_briefly(&harness.key("k"), "ann").await;
    harness.outlive(first.lease.ttl).await;
    let second = harness.hold(first.key(), "bob").await;
    let reigns = history(harness, first.key()).await;
    assert_eq!(reigns.len(), 2);
    assert_reign(&reigns[0], &first, Some(End::Expired));
    assert_reign(&reigns[1], &second, None);
}

pub async fn a_renewal_starts_no_reign(harness: &Harness) {
    let claim = harness.claim(&harness.key("k"), "ann");
    let held = harness.grant(claim.clone()).await;
    harness.renew(&held).await;
    harness.grant(claim).await;
    let reigns = history(harness, held.key()).await;
    assert_eq!(reigns.len(), 1);
    assert_reign(&reigns[0], &held, None);
}

pub async fn only_the_last_reigns_are_kept(harness: &Harness) {
    let (key, mut all) = (harness.key("k"), Vec::new());
    for round in 0..limits::REIGNS + 8 {
        let held = harness.hold(&key, &format!("h{round}")).await;
        harness.release_held(&held).await;
        all.push(held.generation());
    }
    assert_eq!(generations(harness, &key).await, all[all.len() - limits::REIGNS..]);
    // The running one is among them.
    let running = harness.hold(&key, "last").await;
    all.push(running.generation());
    assert_eq!(generations(harness, &key).await, all[all.len() - limits::REIGNS..]);
}

async fn generations(harness: &Harness, key: &Key) -> Vec<Generation> {
    history(harness, key).await.iter().map(|reign| reign.generation).collect()
}

pub async fn another_handle_shows_the_same_history(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.release_held(&held).await;
    let reigns = history(harness, held.key()).await;
    assert_eq!(expect_ok(harness.second().history(held.key()).await), reigns);
}

//! What keeps a reign going, and what does not.

use std::time::Duration;

use tenure_lease::{End, Generation, Phase, Renewal, Renewed, Ttl};

use super::{Harness, expect_ok, expect_renewals};

/// Long enough to tell a renewed lease from one that was left alone.
const WHILE: Duration = Duration::from_millis(200);

#[track_caller]
fn assert_lost(answer: Renewed) {
    assert!(matches!(answer, Renewed::Lost(_)), "expected a loss, got {answer:?}");
}

#[track_caller]
fn assert_renewed(answer: Renewed) {
    assert!(matches!(answer, Renewed::Renewed { .. }), "expected a renewal, got {answer:?}");
}

pub async fn a_renewal_restores_the_ttl(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.pass(WHILE).await;
    let sent = harness.now();
    let Renewed::Renewed { remaining } = harness.renew(&held).await else {
        panic!("a live lease is renewed")
    };
    harness.span(sent, remaining).assert_after(sent, held.lease.ttl.as_duration());
    harness.ends(held.key()).await.assert_after(sent, held.lease.ttl.as_duration());
}

pub async fn a_renewal_reports_no_more_than_the_remaining_time(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let Renewed::Renewed { remaining } = harness.renew(&held).await else {
        panic!("a live lease is renewed")
    };
    assert!(remaining <= held.lease.ttl.as_duration(), "{remaining:?}");
}

pub async fn a_renewal_may_lengthen_the_ttl(harness: &Harness) {
    let longer = harness.long_ttl();
    let half = expect_ok(Ttl::from_millis(longer.as_millis() / 2));
    let mut claim = harness.claim(&harness.key("k"), "ann");
    claim.ttl = half;
    let held = harness.grant(claim).await;
    let sent = harness.now();
    assert_renewed(expect_renewals(harness.store().renew(&[held.renewal(Some(longer))]).await)[0]);
    harness.ends(held.key()).await.assert_after(sent, longer.as_duration());
}

pub async fn a_renewal_may_shorten_the_ttl(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    assert_renewed(expect_renewals(harness.store().renew(&[held.renewal(Some(harness.ttl()))]).await)[0]);
    harness.outlive(harness.ttl()).await;
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
}

pub async fn renewing_is_idempotent(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    assert_renewed(harness.renew(&held).await);
    assert_renewed(harness.renew(&held).await);
    harness.assert_live(&held).await;
    harness.ends(held.key()).await.assert_before(harness.now(), held.lease.ttl.as_duration());
}

pub async fn a_renewal_never_moves_a_generation(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    for _ in 0..3 {
        assert_renewed(harness.renew(&held).await);
    }
    assert_eq!(harness.inspect(held.key()).await.generation, Some(held.generation()));
    harness.release_held(&held).await;
    let next = harness.hold(held.key(), "bob").await;
    assert!(next.generation() > held.generation());
}

pub async fn a_renewal_never_creates(harness: &Harness) {
    let (key, token) = (harness.key("k"), harness.token());
    let generation = expect_ok(Generation::new(1));
    let item = Renewal { key: key.clone(), token: token.clone(), generation, ttl: None };
    assert_lost(expect_renewals(harness.store().renew(&[item]).await)[0]);
    assert_eq!(harness.inspect(&key).await.phase, Phase::Free);
    harness.hold(&key, "bob").await;
}

pub async fn a_renewal_never_revives(harness: &Harness) {
    let held = harness.hold_briefly(&harness.key("k"), "ann").await;
    harness.outlive(held.lease.ttl).await;
    for _ in 0..2 {
        assert_eq!(harness.renew(&held).await, Renewed::Lost(End::Expired));
    }
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
}

pub async fn a_renewal_with_a_longer_ttl_never_revives(harness: &Harness) {
    let held = harness.hold_briefly(&harness.key("k"), "ann").await;
    harness.outlive(held.lease.ttl).await;
    let answers = expect_renewals(harness.store().renew(&[held.renewal(Some(harness.long_ttl()))]).await);
    assert_eq!(answers, [Renewed::Lost(End::Expired)]);
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
}

pub async fn after_a_stall_expired_is_expired(harness: &Harness) {
    let held = harness.hold_briefly(&harness.key("k"), "ann").await;
    harness.stall(held.lease.ttl.as_duration() + super::time::ROUNDING).await;
    assert_eq!(harness.renew(&held).await, Renewed::Lost(End::Expired));
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
}

pub async fn a_wrong_token_renews_nothing(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.pass(WHILE).await;
    let item = Renewal { token: harness.token(), ..held.renewal(None) };
    assert_lost(expect_renewals(harness.store().renew(&[item]).await)[0]);
    harness.assert_live(&held).await;
    harness.ends(held.key()).await.assert_before(held.answered, held.lease.ttl.as_duration());
}

pub async fn a_wrong_generation_renews_nothing(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.pass(WHILE).await;
    let item = Renewal { generation: held.other_generation(), ..held.renewal(None) };
    assert_lost(expect_renewals(harness.store().renew(&[item]).await)[0]);
    harness.assert_live(&held).await;
    harness.ends(held.key()).await.assert_before(held.answered, held.lease.ttl.as_duration());
}

pub async fn a_batch_is_answered_in_order(harness: &Harness) {
    let ann = harness.hold(&harness.key("a"), "ann").await;
    let bob = harness.hold(&harness.key("b"), "bob").await;
    let cat = harness.hold(&harness.key("c"), "cat").await;
    harness.release_held(&bob).await;
    let wrong = Renewal { token: harness.token(), ..cat.renewal(None) };
    let items = [cat.renewal(None), bob.renewal(None), wrong, ann.renewal(None)];
    let answers = expect_renewals(harness.store().renew(&items).await);
    assert_eq!(answers.len(), items.len());
    assert_renewed(answers[0]);
    assert_eq!(answers[1], Renewed::Lost(End::Released));
    assert_lost(answers[2]);
    assert_renewed(answers[3]);
}

pub async fn a_batch_may_name_a_lease_twice(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    let answers = expect_renewals(harness.store().renew(&[held.renewal(None), held.renewal(None)]).await);
    assert_eq!(answers.len(), 2);
    answers.into_iter().for_each(assert_renewed);
}

pub async fn a_lost_item_does_not_affect_the_others(harness: &Harness) {
    let lost = harness.hold(&harness.key("a"), "ann").await;
    let held = harness.hold(&harness.key("b"), "ann").await;
    harness.release_held(&lost).await;
    harness.pass(WHILE).await;
    let sent = harness.now();
    expect_renewals(harness.store().renew(&[lost.renewal(None), held.renewal(None)]).await);
    harness.ends(held.key()).await.assert_after(sent, held.lease.ttl.as_duration());
}

pub async fn a_batch_may_mix_holders_ttls_and_changes_of_them(harness: &Harness) {
    let longer = harness.long_ttl();
    let shorter = expect_ok(Ttl::from_millis(longer.as_millis() / 2));
    let mut other = harness.claim(&harness.key("c"), "cat");
    other.ttl = shorter;
    let ann = harness.hold(&harness.key("a"), "ann").await;
    let bob = harness.hold(&harness.key("b"), "bob").await;
    let cat = harness.grant(other).await;
    let changing = harness.hold(&harness.key("d"), "ann").await;
    let lost = harness.hold(&harness.key("e"), "ann").await;
    let last = harness.hold(&harness.key("f"), "ann").await;
    harness.release_held(&lost).await;
    let keeping = [&ann, &bob, &cat, &lost, &last].map(|held| (held, None));
    let changes =
        [(&ann, None), (&changing, Some(shorter)), (&cat, None), (&lost, Some(longer)), (&last, None)];
    for batch in [&keeping[..], &changes] {
        let items: Vec<_> = batch.iter().map(|(held, ttl)| held.renewal(*ttl)).collect();
        let sent = harness.now();
        let answers = expect_renewals(harness.store().renew(&items).await);
        assert_eq!(answers.len(), items.len());
        for ((held, ttl), answer) in batch.iter().zip(answers) {
            if held.key() == lost.key() {
                assert_eq!(answer, Renewed::Lost(End::Released));
                continue;
            }
            let Renewed::Renewed { remaining } = answer else { panic!("{} is live: {answer:?}", held.key()) };
            let ttl = ttl.unwrap_or(held.lease.ttl).as_duration();
            assert!(remaining <= ttl, "{}: {remaining:?}", held.key());
            harness.span(sent, remaining).assert_after(sent, ttl);
            harness.ends(held.key()).await.assert_after(sent, ttl);
        }
    }
}

pub async fn an_empty_batch_has_no_answers(harness: &Harness) {
    assert!(expect_renewals(harness.store().renew(&[]).await).is_empty());
}

pub async fn another_handle_may_renew(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    assert_renewed(expect_renewals(harness.second().renew(&[held.renewal(None)]).await)[0]);
}

//! What keeps a reign going, and what does not.

use std::time::Duration;

use lease::{End, Generation, Phase, Renewal, Renewed, Ttl};

use super::{World, said};

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

pub async fn a_renewal_restores_the_ttl(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.pass(WHILE).await;
    let sent = world.now();
    let Renewed::Renewed { remaining } = world.renew(&held).await else { panic!("a live lease is renewed") };
    world.span(sent, remaining).assert_after(sent, held.lease.ttl.as_duration());
    world.ends(held.key()).await.assert_after(sent, held.lease.ttl.as_duration());
}

pub async fn a_renewal_tells_no_more_than_the_store_has_left(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let Renewed::Renewed { remaining } = world.renew(&held).await else { panic!("a live lease is renewed") };
    assert!(remaining <= held.lease.ttl.as_duration(), "{remaining:?}");
}

pub async fn a_renewal_may_lengthen_the_ttl(world: &World) {
    let longer = world.long_ttl();
    let half = said(Ttl::from_millis(longer.as_millis() / 2));
    let mut claim = world.claim(&world.key("k"), "ann");
    claim.ttl = half;
    let held = world.grant(claim).await;
    let sent = world.now();
    assert_renewed(said(world.store().renew(&[held.renewal(Some(longer))]).await)[0]);
    world.ends(held.key()).await.assert_after(sent, longer.as_duration());
}

pub async fn a_renewal_may_shorten_the_ttl(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    assert_renewed(said(world.store().renew(&[held.renewal(Some(world.ttl()))]).await)[0]);
    world.outlive(world.ttl()).await;
    assert_eq!(world.inspect(held.key()).await.phase, Phase::Free);
}

pub async fn renewing_twice_is_as_good_as_once(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    assert_renewed(world.renew(&held).await);
    assert_renewed(world.renew(&held).await);
    world.assert_live(&held).await;
    world.ends(held.key()).await.assert_before(world.now(), held.lease.ttl.as_duration());
}

pub async fn a_renewal_never_moves_a_generation(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    for _ in 0..3 {
        assert_renewed(world.renew(&held).await);
    }
    assert_eq!(world.inspect(held.key()).await.generation, Some(held.generation()));
    world.give_back(&held).await;
    let next = world.hold(held.key(), "bob").await;
    assert!(next.generation() > held.generation());
}

pub async fn a_renewal_never_creates(world: &World) {
    let (key, token) = (world.key("k"), world.token());
    let generation = said(Generation::new(1));
    let item = Renewal { key: key.clone(), token: token.clone(), generation, ttl: None };
    assert_lost(said(world.store().renew(&[item]).await)[0]);
    assert_eq!(world.inspect(&key).await.phase, Phase::Free);
    world.hold(&key, "bob").await;
}

pub async fn a_renewal_never_revives(world: &World) {
    let held = world.hold_briefly(&world.key("k"), "ann").await;
    world.outlive(held.lease.ttl).await;
    for _ in 0..2 {
        assert_eq!(world.renew(&held).await, Renewed::Lost(End::Expired));
    }
    assert_eq!(world.inspect(held.key()).await.phase, Phase::Free);
}

pub async fn a_renewal_with_a_longer_ttl_never_revives(world: &World) {
    let held = world.hold_briefly(&world.key("k"), "ann").await;
    world.outlive(held.lease.ttl).await;
    let answers = said(world.store().renew(&[held.renewal(Some(world.long_ttl()))]).await);
    assert_eq!(answers, [Renewed::Lost(End::Expired)]);
    assert_eq!(world.inspect(held.key()).await.phase, Phase::Free);
}

pub async fn after_a_stall_expired_is_expired(world: &World) {
    let held = world.hold_briefly(&world.key("k"), "ann").await;
    world.stall(held.lease.ttl.as_duration() + super::time::ROUNDING).await;
    assert_eq!(world.renew(&held).await, Renewed::Lost(End::Expired));
    assert_eq!(world.inspect(held.key()).await.phase, Phase::Free);
}

pub async fn a_wrong_token_renews_nothing(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.pass(WHILE).await;
    let item = Renewal { token: world.token(), ..held.renewal(None) };
    assert_lost(said(world.store().renew(&[item]).await)[0]);
    world.assert_live(&held).await;
    world.ends(held.key()).await.assert_before(held.told, held.lease.ttl.as_duration());
}

pub async fn a_wrong_generation_renews_nothing(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    world.pass(WHILE).await;
    let item = Renewal { generation: held.other_generation(), ..held.renewal(None) };
    assert_lost(said(world.store().renew(&[item]).await)[0]);
    world.assert_live(&held).await;
    world.ends(held.key()).await.assert_before(held.told, held.lease.ttl.as_duration());
}

pub async fn a_batch_is_answered_in_order(world: &World) {
    let ann = world.hold(&world.key("a"), "ann").await;
    let bob = world.hold(&world.key("b"), "bob").await;
    let cat = world.hold(&world.key("c"), "cat").await;
    world.give_back(&bob).await;
    let wrong = Renewal { token: world.token(), ..cat.renewal(None) };
    let items = [cat.renewal(None), bob.renewal(None), wrong, ann.renewal(None)];
    let answers = said(world.store().renew(&items).await);
    assert_eq!(answers.len(), items.len());
    assert_renewed(answers[0]);
    assert_eq!(answers[1], Renewed::Lost(End::Released));
    assert_lost(answers[2]);
    assert_renewed(answers[3]);
}

pub async fn a_batch_may_name_a_lease_twice(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    let answers = said(world.store().renew(&[held.renewal(None), held.renewal(None)]).await);
    assert_eq!(answers.len(), 2);
    answers.into_iter().for_each(assert_renewed);
}

pub async fn a_lost_item_does_not_hold_up_the_others(world: &World) {
    let lost = world.hold(&world.key("a"), "ann").await;
    let held = world.hold(&world.key("b"), "ann").await;
    world.give_back(&lost).await;
    world.pass(WHILE).await;
    let sent = world.now();
    said(world.store().renew(&[lost.renewal(None), held.renewal(None)]).await);
    world.ends(held.key()).await.assert_after(sent, held.lease.ttl.as_duration());
}

pub async fn a_batch_may_mix_holders_ttls_and_changes_of_them(world: &World) {
    let longer = world.long_ttl();
    let shorter = said(Ttl::from_millis(longer.as_millis() / 2));
    let mut other = world.claim(&world.key("c"), "cat");
    other.ttl = shorter;
    let ann = world.hold(&world.key("a"), "ann").await;
    let bob = world.hold(&world.key("b"), "bob").await;
    let cat = world.grant(other).await;
    let changing = world.hold(&world.key("d"), "ann").await;
    let lost = world.hold(&world.key("e"), "ann").await;
    let last = world.hold(&world.key("f"), "ann").await;
    world.give_back(&lost).await;
    let keeping = [&ann, &bob, &cat, &lost, &last].map(|held| (held, None));
    let changes =
        [(&ann, None), (&changing, Some(shorter)), (&cat, None), (&lost, Some(longer)), (&last, None)];
    for batch in [&keeping[..], &changes] {
        let items: Vec<_> = batch.iter().map(|(held, ttl)| held.renewal(*ttl)).collect();
        let sent = world.now();
        let answers = said(world.store().renew(&items).await);
        assert_eq!(answers.len(), items.len());
        for ((held, ttl), answer) in batch.iter().zip(answers) {
            if held.key() == lost.key() {
                assert_eq!(answer, Renewed::Lost(End::Released));
                continue;
            }
            let Renewed::Renewed { remaining } = answer else { panic!("{} is live: {answer:?}", held.key()) };
            let ttl = ttl.unwrap_or(held.lease.ttl).as_duration();
            assert!(remaining <= ttl, "{}: {remaining:?}", held.key());
            world.span(sent, remaining).assert_after(sent, ttl);
            world.ends(held.key()).await.assert_after(sent, ttl);
        }
    }
}

pub async fn an_empty_batch_has_no_answers(world: &World) {
    assert!(said(world.store().renew(&[]).await).is_empty());
}

pub async fn another_handle_may_renew(world: &World) {
    let held = world.hold(&world.key("k"), "ann").await;
    assert_renewed(said(world.second().renew(&[held.renewal(None)]).await)[0]);
}

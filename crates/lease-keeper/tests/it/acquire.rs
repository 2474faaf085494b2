//! Acquiring a key, also over an unreliable network.

use tenure_keeper::{Error, GuardState, Policy, Terms};
use tenure_lease::{Clock, End, Error as StoreError, Refusal, Ttl};

use crate::faults::{ALWAYS, Kind};
use crate::fixture::{DEADLINE, Fixture, TTL, key, ms, terms};

#[tokio::test(start_paused = true)]
async fn a_busy_key_reports_its_holder() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let error = fixture.other("b").try_acquire(key("k"), terms()).await.unwrap_err();
    let busy = error.busy().unwrap();
    assert_eq!(busy.holder.as_ref(), Some(guard.holder()));
    assert_eq!(busy.generation, Some(guard.generation()));
    fixture.keeper.settled().await;
    assert!(fixture.store.calls("release").is_empty(), "a clear no owes nothing");
}

/// A network that duplicates the claim leaves a copy in the queue.
#[tokio::test(start_paused = true)]
async fn a_claim_that_timed_out_in_the_queue_is_released_by_its_token() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let other = fixture.other("b");
    let error = other.acquire(key("k"), terms(), ms(TTL / 2)).await.unwrap_err();
    assert!(error.busy().is_some(), "{error}");
    other.settled().await;
    assert_eq!(fixture.store.calls("release").len(), 1);
    assert_eq!(fixture.store.holder("k").map(|(_, generation)| generation), Some(guard.generation()));
}

#[tokio::test(start_paused = true)]
async fn a_lost_response_and_a_retry_with_the_same_token_are_one_lease() {
    let fixture = Fixture::new();
    fixture.store.faults.inject("acquire", Kind::CutReply, 2);
    let guard = fixture.take("k", terms()).await;
    assert_eq!(fixture.store.calls("acquire").len(), 3);
    let (_, generation) = fixture.store.holder("k").unwrap();
    assert_eq!(guard.generation(), generation);
    assert_eq!(generation.get(), 1, "the fake counts from one");
    let last = fixture.store.calls("acquire")[2].at;
    assert_eq!(guard.deadline().left(last), ms(DEADLINE), "counted from the request that was answered");
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_stays_unknown_is_an_error_and_the_reaper_releases() {
    let fixture = Fixture::new();
    fixture.store.faults.inject("acquire", Kind::CutReply, ALWAYS);
    let start = fixture.clock.now();
    let error = fixture.keeper.try_acquire(key("k"), terms()).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Unknown { .. })), "{error}");
    assert!(fixture.clock.now().since(start) <= ms(TTL / 3));
    fixture.keeper.settled().await;
    assert_eq!(fixture.store.holder("k"), None);
    assert_eq!(fixture.store.calls("release").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_acquire_is_released_by_the_reaper() {
    let fixture = Fixture::new();
    // Applied by the store without a response: the future is dropped while it waits.
    fixture.store.faults.inject("acquire", Kind::HangAfter, 1);
    {
        let taking = fixture.keeper.try_acquire(key("k"), terms());
        tokio::select! {
            biased;
            _ = taking => panic!("answered"),
            () = fixture.pass(100) => {}
        }
    }
    assert!(fixture.store.holder("k").is_some());
    fixture.pass(1).await;
    assert_eq!(fixture.store.holder("k"), None);
    assert_eq!(fixture.store.calls("release").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_reaper_retries_until_the_ttl_has_ended() {
    let fixture = Fixture::new();
    fixture.store.faults.inject("acquire", Kind::HangAfter, 1);
    fixture.store.faults.inject("release", Kind::Refused, 3);
    {
        let taking = fixture.keeper.try_acquire(key("k"), terms());
        tokio::select! {
            biased;
            _ = taking => panic!("answered"),
            () = fixture.pass(100) => {}
        }
    }
    fixture.keeper.settled().await;
    assert_eq!(fixture.store.calls("release").len(), 4);
    assert_eq!(fixture.store.holder("k"), None);

    fixture.store.faults.inject("release", Kind::Hang, ALWAYS);
    drop(fixture.take("k", terms()).await);
    let start = fixture.clock.now();
    fixture.keeper.settled().await;
    assert!(fixture.clock.now().since(start) <= ms(TTL + 2_000), "the reaper has a bound");
    assert_eq!(fixture.store.holder("k"), None);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_leaves_nothing_in_the_queue_and_nothing_held() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let other = fixture.other("b");
    {
        let waiting = other.acquire(key("k"), terms(), ms(60_000));
        tokio::select! {
            biased;
            _ = waiting => panic!("granted"),
            () = fixture.pass(100) => {}
        }
    }
    guard.release().await.unwrap();
    other.settled().await;
    assert_eq!(fixture.store.holder("k"), None);
    assert_eq!(fixture.store.parked("k"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_parked_grant_is_held_only_after_a_renewal_of_it() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let other = fixture.other("b");
    let waiting = other.acquire(key("k"), terms(), ms(60_000));
    let releasing = async {
        fixture.pass(40_000).await;
        guard.release().await.unwrap();
    };
    let before = fixture.store.calls("renew").len();
    let (second, ()) = tokio::join!(waiting, releasing);
    let second = second.unwrap();
    let renewals = fixture.store.calls("renew");
    let confirming = renewals.last().unwrap();
    assert!(renewals.len() > before);
    assert_eq!(second.deadline().left(confirming.at), ms(DEADLINE));
    assert_eq!(second.state(), GuardState::Held);
}

#[tokio::test(start_paused = true)]
async fn a_parked_grant_whose_confirmation_fails_becomes_no_guard() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let other = fixture.other("b");
    let waiting = other.acquire(key("k"), terms(), ms(60_000));
    let releasing = async {
        fixture.pass(1_000).await;
        fixture.store.faults.inject("renew", Kind::Refused, ALWAYS);
        guard.release().await.unwrap();
    };
    let (second, ()) = tokio::join!(waiting, releasing);
    assert!(matches!(second, Err(Error::Store(StoreError::Unavailable { .. }))));
    fixture.store.faults.heal();
    other.settled().await;
    assert_eq!(fixture.store.holder("k"), None);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_busy_when_its_time_is_over() {
    let fixture = Fixture::new();
    let _guard = fixture.take("k", terms()).await;
    let start = fixture.clock.now();
    let error = fixture.other("b").acquire(key("k"), terms(), ms(20_000)).await.unwrap_err();
    assert!(error.busy().is_some(), "{error}");
    let took = fixture.clock.now().since(start);
    assert!(took >= ms(20_000) && took < ms(20_100), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_a_key_that_expired() {
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms().policy(Policy::Abort)).await;
    fixture.store.faults.inject("renew", Kind::Refused, 100);
    let waiting = fixture.other("b");
    let waiting = waiting.acquire(key("k"), terms(), ms(60_000));
    let healing = async {
        guard.lost().await;
        fixture.store.faults.heal();
    };
    let (second, ()) = tokio::join!(waiting, healing);
    assert!(second.unwrap().generation() > guard.generation());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_not_retried() {
    let fixture = Fixture::new();
    let long = Terms::new(Ttl::from_millis(100).unwrap());
    let error = fixture.keeper.try_acquire(key("k"), long).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Refused(Refusal::TtlOutOfRange { .. }))), "{error}");
    assert!(fixture.store.calls("acquire").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dead_predecessor_is_replaced_by_its_generation() {
    let fixture = Fixture::new();
    let dead = fixture.take("k", terms()).await;
    let other = fixture.other("b");
    let live = other.replace(key("k"), terms(), dead.generation()).await.unwrap();
    assert!(live.generation() > dead.generation());
    assert_eq!(dead.lost().await.as_str(), End::Superseded.as_str());
    let error = other.replace(key("k"), terms(), dead.generation()).await.unwrap_err();
    assert!(error.busy().is_some());
}

#[tokio::test(start_paused = true)]
async fn one_keeper_holds_under_several_names_and_renews_them_together() {
    let fixture = Fixture::new();
    let name = |name| tenure_lease::Holder::new(name).unwrap();
    let one = fixture.take("one", terms().holder(name("session-1"))).await;
    let two = fixture.take("two", terms().holder(name("session-2"))).await;
    let own = fixture.take("own", terms()).await;
    assert_eq!((one.holder(), two.holder()), (&name("session-1"), &name("session-2")));
    assert_eq!(fixture.store.holder("two").unwrap().0, name("session-2"));
    assert_eq!(own.holder(), fixture.keeper.holder());
    fixture.pass(TTL * 3).await;
    assert!(one.permit(ms(0)).is_ok() && two.permit(ms(0)).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_token_that_was_granted_before_continues_its_lease() {
    let fixture = Fixture::new();
    let token = tenure_lease::Token::parse("a-token-of-another-client").unwrap();
    let store = fixture.keeper.store();
    let (holder, ttl) = (tenure_lease::Holder::new("session-1").unwrap(), Ttl::from_millis(TTL).unwrap());
    let claim = tenure_lease::Claim::new(key("k"), holder.clone(), token.clone(), ttl);
    store.acquire(claim).await.unwrap();
    let (_, generation) = fixture.store.holder("k").unwrap();
    let guard = fixture.take("k", terms().holder(holder).token(token.clone())).await;
    assert_eq!(guard.generation(), generation, "the same reign");
    guard.release().await.unwrap();
    assert_eq!(fixture.store.holder("k"), None);
    let again = fixture.keeper.try_acquire(key("k"), terms().token(token)).await.unwrap_err();
    assert!(matches!(again, Error::Store(StoreError::Refused(Refusal::TokenSpent))), "{again}");
}

#[tokio::test(start_paused = true)]
async fn a_given_token_is_released_after_a_failed_acquire() {
    let fixture = Fixture::new();
    let token = tenure_lease::Token::parse("a-token-of-another-client").unwrap();
    let store = fixture.keeper.store();
    let ttl = Ttl::from_millis(TTL).unwrap();
    let claim = tenure_lease::Claim::new(key("k"), fixture.keeper.holder().clone(), token.clone(), ttl);
    store.acquire(claim).await.unwrap();
    fixture.store.faults.inject("acquire", Kind::Refused, ALWAYS);
    fixture.keeper.try_acquire(key("k"), terms().token(token)).await.unwrap_err();
    fixture.keeper.settled().await;
    assert_eq!(fixture.store.holder("k"), None);
}

//! Taking a key, also when the network lies.

use lease::{Clock, End, Error as StoreError, Refusal, Ttl};
use lease_keeper::{Error, Policy, State, Terms};

use crate::bench::{Bench, DEADLINE, TTL, key, ms, terms};
use crate::faults::{ALWAYS, Kind};

#[tokio::test(start_paused = true)]
async fn a_busy_key_says_who_holds_it() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let error = bench.other("b").try_acquire(key("k"), terms()).await.unwrap_err();
    let busy = error.busy().unwrap();
    assert_eq!(busy.holder.as_ref(), Some(guard.holder()));
    assert_eq!(busy.generation, Some(guard.generation()));
    bench.keeper.settled().await;
    assert!(bench.store.calls("release").is_empty(), "a clear no owes nothing");
}

/// A network that doubles the claim leaves a copy in the queue that nobody hears of.
#[tokio::test(start_paused = true)]
async fn a_claim_that_waited_in_vain_is_given_up_by_its_token() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let other = bench.other("b");
    let error = other.acquire(key("k"), terms(), ms(TTL / 2)).await.unwrap_err();
    assert!(error.busy().is_some(), "{error}");
    other.settled().await;
    assert_eq!(bench.store.calls("release").len(), 1);
    assert_eq!(bench.store.holder("k").map(|(_, generation)| generation), Some(guard.generation()));
}

#[tokio::test(start_paused = true)]
async fn a_cut_reply_and_a_retry_with_the_same_token_are_one_lease() {
    let bench = Bench::new();
    bench.store.faults.inject("acquire", Kind::CutReply, 2);
    let guard = bench.take("k", terms()).await;
    assert_eq!(bench.store.calls("acquire").len(), 3);
    let (_, generation) = bench.store.holder("k").unwrap();
    assert_eq!(guard.generation(), generation);
    assert_eq!(generation.get(), 1, "the fake counts from one");
    let last = bench.store.calls("acquire")[2].at;
    assert_eq!(guard.deadline().left(last), ms(DEADLINE), "counted from the request that was answered");
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_stays_unknown_is_an_error_and_the_reaper_gives_back() {
    let bench = Bench::new();
    bench.store.faults.inject("acquire", Kind::CutReply, ALWAYS);
    let start = bench.clock.now();
    let error = bench.keeper.try_acquire(key("k"), terms()).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Unknown { .. })), "{error}");
    assert!(bench.clock.now().since(start) <= ms(TTL / 3));
    bench.keeper.settled().await;
    assert_eq!(bench.store.holder("k"), None);
    assert_eq!(bench.store.calls("release").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_acquire_is_released_by_the_reaper() {
    let bench = Bench::new();
    // Applied by the store, never answered: the future is dropped while it waits.
    bench.store.faults.inject("acquire", Kind::HangAfter, 1);
    {
        let taking = bench.keeper.try_acquire(key("k"), terms());
        tokio::select! {
            biased;
            _ = taking => panic!("answered"),
            () = bench.pass(100) => {}
        }
    }
    assert!(bench.store.holder("k").is_some());
    bench.pass(1).await;
    assert_eq!(bench.store.holder("k"), None);
    assert_eq!(bench.store.calls("release").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_reaper_tries_again_until_the_ttl_has_done_it() {
    let bench = Bench::new();
    bench.store.faults.inject("acquire", Kind::HangAfter, 1);
    bench.store.faults.inject("release", Kind::Refused, 3);
    {
        let taking = bench.keeper.try_acquire(key("k"), terms());
        tokio::select! {
            biased;
            _ = taking => panic!("answered"),
            () = bench.pass(100) => {}
        }
    }
    bench.keeper.settled().await;
    assert_eq!(bench.store.calls("release").len(), 4);
    assert_eq!(bench.store.holder("k"), None);

    bench.store.faults.inject("release", Kind::Hang, ALWAYS);
    drop(bench.take("k", terms()).await);
    let start = bench.clock.now();
    bench.keeper.settled().await;
    assert!(bench.clock.now().since(start) <= ms(TTL + 2_000), "the reaper has a bound");
    assert_eq!(bench.store.holder("k"), None);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_wait_leaves_nothing_in_the_queue_and_nothing_held() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let other = bench.other("b");
    {
        let waiting = other.acquire(key("k"), terms(), ms(60_000));
        tokio::select! {
            biased;
            _ = waiting => panic!("granted"),
            () = bench.pass(100) => {}
        }
    }
    guard.release().await.unwrap();
    other.settled().await;
    assert_eq!(bench.store.holder("k"), None);
    assert_eq!(bench.store.parked("k"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_parked_grant_is_held_only_after_a_renewal_of_it() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let other = bench.other("b");
    let waiting = other.acquire(key("k"), terms(), ms(60_000));
    let releasing = async {
        bench.pass(40_000).await;
        guard.release().await.unwrap();
    };
    let before = bench.store.calls("renew").len();
    let (second, ()) = tokio::join!(waiting, releasing);
    let second = second.unwrap();
    let renewals = bench.store.calls("renew");
    let confirming = renewals.last().unwrap();
    assert!(renewals.len() > before);
    assert_eq!(second.deadline().left(confirming.at), ms(DEADLINE));
    assert_eq!(second.state(), State::Held);
}

#[tokio::test(start_paused = true)]
async fn a_parked_grant_whose_confirmation_fails_is_not_handed_out() {
    let bench = Bench::new();
    let guard = bench.take("k", terms()).await;
    let other = bench.other("b");
    let waiting = other.acquire(key("k"), terms(), ms(60_000));
    let releasing = async {
        bench.pass(1_000).await;
        bench.store.faults.inject("renew", Kind::Refused, ALWAYS);
        guard.release().await.unwrap();
    };
    let (second, ()) = tokio::join!(waiting, releasing);
    assert!(matches!(second, Err(Error::Store(StoreError::Unavailable { .. }))));
    bench.store.faults.heal();
    other.settled().await;
    assert_eq!(bench.store.holder("k"), None);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_busy_when_its_time_is_over() {
    let bench = Bench::new();
    let _guard = bench.take("k", terms()).await;
    let start = bench.clock.now();
    let error = bench.other("b").acquire(key("k"), terms(), ms(20_000)).await.unwrap_err();
    assert!(error.busy().is_some(), "{error}");
    let took = bench.clock.now().since(start);
    assert!(took >= ms(20_000) && took < ms(20_100), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_a_key_that_expired() {
    let bench = Bench::new();
    let guard = bench.take("k", terms().policy(Policy::Abort)).await;
    bench.store.faults.inject("renew", Kind::Refused, 100);
    let waiting = bench.other("b");
    let waiting = waiting.acquire(key("k"), terms(), ms(60_000));
    let healing = async {
        guard.lost().await;
        bench.store.faults.heal();
    };
    let (second, ()) = tokio::join!(waiting, healing);
    assert!(second.unwrap().generation() > guard.generation());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_not_asked_again() {
    let bench = Bench::new();
    let long = Terms::new(Ttl::from_millis(100).unwrap());
    let error = bench.keeper.try_acquire(key("k"), long).await.unwrap_err();
    assert!(matches!(error, Error::Store(StoreError::Refused(Refusal::TtlOutOfRange { .. }))), "{error}");
    assert!(bench.store.calls("acquire").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dead_predecessor_is_replaced_by_its_generation() {
    let bench = Bench::new();
    let dead = bench.take("k", terms()).await;
    let other = bench.other("b");
    let live = other.replace(key("k"), terms(), dead.generation()).await.unwrap();
    assert!(live.generation() > dead.generation());
    assert_eq!(dead.lost().await.as_str(), End::Superseded.as_str());
    let error = other.replace(key("k"), terms(), dead.generation()).await.unwrap_err();
    assert!(error.busy().is_some());
}

#[tokio::test(start_paused = true)]
async fn one_keeper_holds_for_many_names_and_renews_them_together() {
    let bench = Bench::new();
    let name = |name| lease::Holder::new(name).unwrap();
    let one = bench.take("one", terms().holder(name("session-1"))).await;
    let two = bench.take("two", terms().holder(name("session-2"))).await;
    let own = bench.take("own", terms()).await;
    assert_eq!((one.holder(), two.holder()), (&name("session-1"), &name("session-2")));
    assert_eq!(bench.store.holder("two").unwrap().0, name("session-2"));
    assert_eq!(own.holder(), bench.keeper.holder());
    bench.pass(TTL * 3).await;
    assert!(one.permit(ms(0)).is_ok() && two.permit(ms(0)).is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_token_that_was_granted_before_goes_on_with_its_lease() {
    let bench = Bench::new();
    let token = lease::Token::parse("a-token-of-somebody-else").unwrap();
    let store = bench.keeper.store();
    let (holder, ttl) = (lease::Holder::new("session-1").unwrap(), Ttl::from_millis(TTL).unwrap());
    let claim = lease::Claim::new(key("k"), holder.clone(), token.clone(), ttl);
    store.acquire(claim).await.unwrap();
    let (_, generation) = bench.store.holder("k").unwrap();
    let guard = bench.take("k", terms().holder(holder).token(token.clone())).await;
    assert_eq!(guard.generation(), generation, "the same reign");
    guard.release().await.unwrap();
    assert_eq!(bench.store.holder("k"), None);
    let again = bench.keeper.try_acquire(key("k"), terms().token(token)).await.unwrap_err();
    assert!(matches!(again, Error::Store(StoreError::Refused(Refusal::TokenSpent))), "{again}");
}

#[tokio::test(start_paused = true)]
async fn a_given_token_is_given_back_when_nothing_came_of_it() {
    let bench = Bench::new();
    let token = lease::Token::parse("a-token-of-somebody-else").unwrap();
    let store = bench.keeper.store();
    let ttl = Ttl::from_millis(TTL).unwrap();
    let claim = lease::Claim::new(key("k"), bench.keeper.holder().clone(), token.clone(), ttl);
    store.acquire(claim).await.unwrap();
    bench.store.faults.inject("acquire", Kind::Refused, ALWAYS);
    bench.keeper.try_acquire(key("k"), terms().token(token)).await.unwrap_err();
    bench.keeper.settled().await;
    assert_eq!(bench.store.holder("k"), None);
}

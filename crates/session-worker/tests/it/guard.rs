//! One worker at a time.

use std::sync::Arc;
use std::time::Duration;

use lease::{Claim, Holder, Key, Meta, Token, Ttl};
use session::State;
use session_worker::{Fatal, Identity, Options, Readiness, Worker};
use testkit::RedisServer;

use crate::house::{GUARD, House};
use crate::launcher::Plain;

/// Waits for the guard for little more than two seconds.
fn impatient(options: &Options) -> Options {
    Options { guard_wait: Some(Duration::from_millis(600)), ..options.clone() }
}

#[tokio::test]
async fn a_second_worker_refuses_to_start_names_the_holder_and_changes_nothing() {
    let house = House::memory().await;
    let worker = house.worker().await;
    let id = house.wish("1:0:1:", "high").await;
    house.until(&id, State::Ready).await;
    let holder = house.holder(GUARD).await.unwrap();
    let second = Worker::start(house.store.clone(), impatient(&house.options), Arc::new(Plain)).await;
    match second {
        Err(fatal @ Fatal::Held { .. }) => assert!(fatal.to_string().contains(&holder), "{fatal}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("two workers"),
    }
    assert_eq!(house.holder("lease:tuner:0").await.as_deref(), Some(id.as_str()), "nothing was wiped");
    assert_eq!(house.get(&id).await.state, State::Ready);
    assert_eq!(worker.readiness(), Readiness::Ready);
    worker.close().await;
}

#[tokio::test]
async fn a_worker_whose_guard_is_taken_away_ends_and_writes_nothing_more() {
    let house = House::memory().await;
    let worker = house.worker().await;
    let id = house.wish("1:0:1:", "high").await;
    house.until(&id, State::Ready).await;
    house.revoke(GUARD).await;
    let fatal = worker.failed().await;
    assert!(matches!(fatal, Fatal::Lost { .. }), "{fatal}");
    assert!(matches!(worker.readiness(), Readiness::NotReady(_)));
    assert!(!house.folder(&id).exists(), "the picture ended first");
    let unheard = house.wish("1:0:2:", "high").await;
    worker.close().await;
    assert_eq!(house.get(&id).await.state, State::Ready, "the record is as it was");
    assert_eq!(house.get(&unheard).await.state, State::New);
}

/// Somebody holds the guard on Redis for ten minutes and says this about itself.
async fn ghost(house: &House, identity: &Identity) {
    let Identity { boot, namespace, pid, started } = identity;
    let meta = format!(r#"{{"boot":"{boot}","pidns":{namespace},"pid":{pid},"started":{started}}}"#);
    let token = Token::parse("the-token-of-the-dead-one").unwrap();
    let (key, holder) = (Key::new(GUARD).unwrap(), Holder::new("ghost").unwrap());
    let claim = Claim::new(key, holder, token, Ttl::from_secs(600).unwrap()).meta(Meta::new(meta).unwrap());
    house.store.acquire(claim).await.unwrap();
}

#[tokio::test]
async fn on_redis_the_guard_of_a_process_that_is_proven_dead_is_taken_at_once() {
    let redis = RedisServer::start().unwrap();
    let house = House::redis(&redis).await;
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    ghost(&house, &Identity { pid, started: 1, ..Identity::of_this_process().unwrap() }).await;
    let worker = house.worker().await;
    assert_ne!(house.holder(GUARD).await.as_deref(), Some("ghost"));
    worker.close().await;
}

#[tokio::test]
async fn on_redis_the_guard_of_a_process_that_may_live_is_waited_for() {
    let redis = RedisServer::start().unwrap();
    let house = House::redis(&redis).await;
    let me = Identity::of_this_process().unwrap();
    // As dead as the other one, but of another boot of the machine, or of another machine.
    ghost(&house, &Identity { boot: "another".to_owned(), started: 1, ..me }).await;
    let fatal = Worker::start(house.store.clone(), impatient(&house.options), Arc::new(Plain)).await.err();
    assert_eq!(fatal, Some(Fatal::Held { holder: "ghost".to_owned() }));
    assert_eq!(house.holder(GUARD).await.as_deref(), Some("ghost"));
}

#[tokio::test]
async fn a_guard_key_that_is_no_lease_of_ours_is_fatal_at_once() {
    let redis = RedisServer::start().unwrap();
    let house = House::redis(&redis).await;
    let id = house.wish("1:0:1:", "high").await;
    redis.command(&["HSET", GUARD, "what", "is this"]).unwrap();
    let fatal = house.try_worker().await.err().unwrap();
    assert!(matches!(fatal, Fatal::Ambiguous { .. }), "{fatal}");
    assert_eq!(house.get(&id).await.state, State::New);
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_fatal() {
    let redis = RedisServer::start().unwrap();
    let mut house = House::redis(&redis).await;
    house.options.guard_ttl = Duration::from_secs(3);
    redis.kill9().unwrap();
    let fatal = house.try_worker().await.err().unwrap();
    assert!(matches!(fatal, Fatal::Store { .. }), "{fatal}");
}

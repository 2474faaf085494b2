//! The guard: one worker at a time.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Claim, Holder, Key, Meta, Token, Ttl};
use tenure_session::SessionState;
use tenure_session_worker::{Options, ProcessIdentity, Readiness, Worker, WorkerError};
use tenure_testkit::RedisServer;

use crate::fixture::{Fixture, GUARD};
use crate::launcher::PlainLauncher;

/// Waits only a short time for the guard.
fn with_short_wait(options: &Options) -> Options {
    Options { guard_wait: Some(Duration::from_millis(600)), ..options.clone() }
}

#[tokio::test]
async fn a_second_worker_refuses_to_start_names_the_holder_and_changes_nothing() {
    let fixture = Fixture::memory().await;
    let worker = fixture.worker().await;
    let id = fixture.start("1:0:1:", "high").await;
    fixture.until(&id, SessionState::Ready).await;
    let holder = fixture.holder(GUARD).await.unwrap();
    let second =
        Worker::start(fixture.store.clone(), with_short_wait(&fixture.options), Arc::new(PlainLauncher))
            .await;
    match second {
        Err(fatal @ WorkerError::GuardHeld { .. }) => assert!(fatal.to_string().contains(&holder), "{fatal}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("two workers"),
    }
    assert_eq!(fixture.holder("lease:tuner:0").await.as_deref(), Some(id.as_str()), "nothing was wiped");
    assert_eq!(fixture.get(&id).await.state, SessionState::Ready);
    assert_eq!(worker.readiness(), Readiness::Ready);
    worker.close().await;
}

#[tokio::test]
async fn a_worker_whose_guard_is_revoked_ends_and_writes_nothing_more() {
    let fixture = Fixture::memory().await;
    let worker = fixture.worker().await;
    let id = fixture.start("1:0:1:", "high").await;
    fixture.until(&id, SessionState::Ready).await;
    fixture.revoke(GUARD).await;
    let fatal = worker.failed().await;
    assert!(matches!(fatal, WorkerError::GuardLost { .. }), "{fatal}");
    assert!(matches!(worker.readiness(), Readiness::NotReady(_)));
    assert!(!fixture.folder(&id).exists(), "the pipeline ended first");
    let ignored = fixture.start("1:0:2:", "high").await;
    worker.close().await;
    assert_eq!(fixture.get(&id).await.state, SessionState::Ready, "the record is unchanged");
    assert_eq!(fixture.get(&ignored).await.state, SessionState::New);
}

/// Acquires the guard for ten minutes with this process identity.
async fn hold_guard_as(fixture: &Fixture, identity: &ProcessIdentity) {
    let ProcessIdentity { boot, namespace, pid, started } = identity;
    let meta = format!(r#"{{"boot":"{boot}","pidns":{namespace},"pid":{pid},"started":{started}}}"#);
    let token = Token::parse("token-of-a-dead-process").unwrap();
    let (key, holder) = (Key::new(GUARD).unwrap(), Holder::new("dead-worker").unwrap());
    let claim = Claim::new(key, holder, token, Ttl::from_secs(600).unwrap()).meta(Meta::new(meta).unwrap());
    fixture.store.acquire(claim).await.unwrap();
}

#[tokio::test]
async fn on_redis_the_guard_of_a_process_proven_dead_is_taken_over_at_once() {
    let redis = RedisServer::start().unwrap();
    let fixture = Fixture::redis(&redis).await;
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    hold_guard_as(
        &fixture,
        &ProcessIdentity { pid, started: 1, ..ProcessIdentity::of_this_process().unwrap() },
    )
    .await;
    let worker = fixture.worker().await;
    assert_ne!(fixture.holder(GUARD).await.as_deref(), Some("dead-worker"));
    worker.close().await;
}

#[tokio::test]
async fn on_redis_the_guard_of_a_process_that_may_be_alive_is_waited_for() {
    let redis = RedisServer::start().unwrap();
    let fixture = Fixture::redis(&redis).await;
    let me = ProcessIdentity::of_this_process().unwrap();
    // Also dead, but of another boot or another machine, so its death cannot be proven.
    hold_guard_as(&fixture, &ProcessIdentity { boot: "another".to_owned(), started: 1, ..me }).await;
    let fatal =
        Worker::start(fixture.store.clone(), with_short_wait(&fixture.options), Arc::new(PlainLauncher))
            .await
            .err();
    assert_eq!(fatal, Some(WorkerError::GuardHeld { holder: "dead-worker".to_owned() }));
    assert_eq!(fixture.holder(GUARD).await.as_deref(), Some("dead-worker"));
}

#[tokio::test]
async fn a_guard_key_with_foreign_contents_is_fatal_at_once() {
    let redis = RedisServer::start().unwrap();
    let fixture = Fixture::redis(&redis).await;
    let id = fixture.start("1:0:1:", "high").await;
    redis.command(&["HSET", GUARD, "what", "is this"]).unwrap();
    let fatal = fixture.try_worker().await.err().unwrap();
    assert!(matches!(fatal, WorkerError::GuardAmbiguous { .. }), "{fatal}");
    assert_eq!(fixture.get(&id).await.state, SessionState::New);
}

#[tokio::test]
async fn an_unresponsive_store_is_fatal() {
    let redis = RedisServer::start().unwrap();
    let mut fixture = Fixture::redis(&redis).await;
    fixture.options.guard_ttl = Duration::from_secs(3);
    redis.kill9().unwrap();
    let fatal = fixture.try_worker().await.err().unwrap();
    assert!(matches!(fatal, WorkerError::Store { .. }), "{fatal}");
}

//! Loss of leases.

use tenure_session::{Detail, Reason, SessionLog, SessionState};
use tenure_testkit::RedisServer;
use tenure_testkit::wait::until_async;

use crate::fixture::{Fixture, LIMIT};

const CHANNEL: &str = "1:0:1:";

async fn a_lost_lease_ends_its_session(key: &str, detail: Detail) {
    let fixture = Fixture::memory().await;
    let worker = fixture.worker().await;
    let id = fixture.start(CHANNEL, "high").await;
    let other = fixture.start("1:0:2:", "high").await;
    fixture.until(&id, SessionState::Ready).await;
    fixture.until(&other, SessionState::Ready).await;
    let slot = fixture.get(&id).await.slot.unwrap();
    let key = key.replace("SLOT", &slot.to_string());
    fixture.revoke(&key).await;
    let over = fixture.until_ended(&id).await;
    assert_eq!(
        (over.state, over.reason, over.detail),
        (SessionState::Failed, Reason::LeaseExpired, Some(detail))
    );
    assert!(!fixture.folder(&id).exists());
    assert_eq!(fixture.holder(&key).await, None, "it is not acquired again");
    assert_eq!(fixture.get(&other).await.state, SessionState::Ready);
    worker.close().await;
}

#[tokio::test]
async fn a_session_that_loses_its_tuner_fails() {
    a_lost_lease_ends_its_session("lease:tuner:SLOT", Detail::TunerLeaseLost).await;
}

#[tokio::test]
async fn a_session_that_loses_its_channel_fails() {
    a_lost_lease_ends_its_session("lease:service:1:0:1:", Detail::ServiceLeaseLost).await;
}

#[tokio::test]
async fn an_unresponsive_redis_ends_the_worker_and_its_pipelines() {
    let redis = RedisServer::start().unwrap();
    let fixture = Fixture::redis(&redis).await;
    let worker = fixture.worker().await;
    let id = fixture.start(CHANNEL, "high").await;
    fixture.until(&id, SessionState::Ready).await;
    redis.pause().unwrap();
    let fatal = worker.failed().await;
    assert!(matches!(fatal, tenure_session_worker::WorkerError::GuardLost { .. }), "{fatal}");
    assert!(!fixture.folder(&id).exists(), "the pipeline ended first");
    redis.resume().unwrap();
    // The connection may have to be re-established first.
    let answers = async || fixture.log.get(&id).await.is_ok();
    until_async("redis answers again", LIMIT, answers).await.unwrap();
    assert_eq!(fixture.get(&id).await.state, SessionState::Ready, "it wrote nothing after the loss");
    worker.close().await;
}

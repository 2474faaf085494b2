//! Leases that are lost, caused for real.

use session::{Detail, Reason, SessionLog, State};
use testkit::RedisServer;
use testkit::wait::until_async;

use crate::house::{House, LIMIT};

const CHANNEL: &str = "1:0:1:";

async fn a_lost_lease_ends_its_session(key: &str, detail: Detail) {
    let house = House::memory().await;
    let worker = house.worker().await;
    let id = house.wish(CHANNEL, "high").await;
    let bystander = house.wish("1:0:2:", "high").await;
    house.until(&id, State::Ready).await;
    house.until(&bystander, State::Ready).await;
    let slot = house.get(&id).await.slot.unwrap();
    let key = key.replace("SLOT", &slot.to_string());
    house.revoke(&key).await;
    let over = house.until_over(&id).await;
    assert_eq!((over.state, over.reason, over.detail), (State::Failed, Reason::LeaseExpired, Some(detail)));
    assert!(!house.folder(&id).exists());
    assert_eq!(house.holder(&key).await, None, "it is not taken again");
    assert_eq!(house.get(&bystander).await.state, State::Ready);
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
async fn a_redis_that_stands_still_ends_the_worker_and_its_pictures() {
    let redis = RedisServer::start().unwrap();
    let house = House::redis(&redis).await;
    let worker = house.worker().await;
    let id = house.wish(CHANNEL, "high").await;
    house.until(&id, State::Ready).await;
    redis.pause().unwrap();
    let fatal = worker.failed().await;
    assert!(matches!(fatal, session_worker::Fatal::Lost { .. }), "{fatal}");
    assert!(!house.folder(&id).exists(), "the picture ended first");
    redis.resume().unwrap();
    // The connection may have to be made anew first.
    let answers = async || house.log.get(&id).await.is_ok();
    until_async("redis answers again", LIMIT, answers).await.unwrap();
    assert_eq!(house.get(&id).await.state, State::Ready, "it wrote nothing after the loss");
    worker.close().await;
}

//! What a worker finds of the one before it.

use std::process::Command;

use lease::{Key, Op};
use session::{Detail, Reason, Session, SessionId, SessionLog, State, Target};
use session_worker::SESSION_VARIABLE;
use testkit::RedisServer;

use crate::house::{House, session};

/// A record as a worker that vanished left it.
pub(crate) async fn leave(house: &House, channel: &str, state: State, slot: Option<u32>) -> SessionId {
    let wish = session(Target::new(Some(channel), None, None).unwrap(), "high");
    let id = house.record(Session { slot, ..wish }).await;
    let key = Key::new(format!("v3:session:{id}")).unwrap();
    let record = house.store.get(&key).await.unwrap().unwrap();
    let text = String::from_utf8(record.value.to_vec()).unwrap();
    let value = text.replace("\"state\":\"NEW\"", &format!("\"state\":\"{state}\"")).into_bytes().into();
    house.store.commit(&[Op::Put { key, value, ttl: None }]).await.unwrap();
    id
}

/// A lease as a worker that vanished left it.
async fn hold(house: &House, key: &str, holder: &SessionId) {
    let (key, holder) = (Key::new(key).unwrap(), lease::Holder::new(holder.as_str()).unwrap());
    let token = lease::Token::parse(&format!("a-token-of-the-vanished-{}", key.as_str().len())).unwrap();
    let claim = lease::Claim::new(key, holder, token, lease::Ttl::from_secs(600).unwrap());
    house.store.acquire(claim).await.unwrap();
}

async fn everything_is_put_right(house: &House) {
    let starting = leave(house, "1:0:1:", State::Starting, Some(0)).await;
    hold(house, "lease:service:1:0:1:", &starting).await;
    hold(house, "lease:tuner:0", &starting).await;
    let mut later = Vec::new();
    for (number, state) in
        [State::Priming, State::Ready, State::Draining, State::Stopping].into_iter().enumerate()
    {
        later.push((state, leave(house, &format!("1:1:{number}:"), state, Some(1)).await));
    }
    let stopped = leave(house, "1:0:9:", State::Stopped, None).await;
    let before = house.get(&stopped).await;

    let worker = house.worker().await;
    for (state, id) in later {
        let over = house.get(&id).await;
        assert_eq!(
            (over.state, over.reason, over.detail, over.recovered_from),
            (State::Failed, Reason::ProcessEnded, Some(Detail::WorkerRestarted), Some(state))
        );
    }
    assert_eq!(house.get(&stopped).await, before, "what is over stays as it is");
    let again = house.until(&starting, State::Ready).await;
    assert_eq!((again.recovered_from, again.slot), (Some(State::Starting), Some(0)));
    worker.close().await;
}

#[tokio::test]
async fn what_a_vanished_worker_left_is_put_right_in_memory() {
    everything_is_put_right(&House::memory().await).await;
}

#[tokio::test]
async fn what_a_vanished_worker_left_is_put_right_on_redis() {
    let redis = RedisServer::start().unwrap();
    everything_is_put_right(&House::redis(&redis).await).await;
}

#[tokio::test]
async fn what_still_runs_of_a_vanished_worker_is_gone_before_its_tuner_is_used() {
    let house = House::memory().await;
    let id = leave(&house, "1:0:1:", State::Ready, Some(0)).await;
    let mut left = Command::new("sleep").arg("1000").env(SESSION_VARIABLE, id.as_str()).spawn().unwrap();
    let worker = house.worker().await;
    // Dead already; the kernel may take a moment to tell its parent.
    let told = || left.try_wait().unwrap().is_some();
    testkit::wait::until("what was left is over", crate::house::LIMIT, told).unwrap();
    worker.close().await;
}

#[tokio::test]
async fn records_that_nobody_can_read_and_folders_that_nobody_needs_are_no_obstacle() {
    let house = House::memory().await;
    let key = Key::new("v3:session:strange").unwrap();
    let value = b"{}".to_vec().into();
    house.store.commit(&[Op::Put { key, value, ttl: None }]).await.unwrap();
    let (ours, theirs) = (house.options.output_dir.join("gone-1"), house.options.output_dir.join("photos"));
    for folder in [&ours, &theirs] {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("cat.jpg"), b"x").unwrap();
    }
    std::fs::write(ours.join(".tenure"), b"").unwrap();
    let worker = house.worker().await;
    let id = house.wish("1:0:1:", "high").await;
    house.until(&id, State::Ready).await;
    testkit::wait::until("the folder of nobody is removed", crate::house::LIMIT, || !ours.exists()).unwrap();
    assert!(theirs.join("cat.jpg").exists(), "what is not ours stays");
    assert_eq!(house.log.list(session::Among::All, 0, 10).await.unwrap().total, 1);
    worker.close().await;
}

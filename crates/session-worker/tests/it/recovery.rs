//! Recovery of the sessions of a predecessor.

use std::process::Command;

use tenure_lease::{Key, Op};
use tenure_session::{Detail, Reason, Session, SessionId, SessionLog, SessionState, Target};
use tenure_session_worker::SESSION_VARIABLE;
use tenure_testkit::RedisServer;

use crate::fixture::{Fixture, session};

/// Writes a record as a crashed worker would leave it.
pub(crate) async fn write_stale_record(
    fixture: &Fixture,
    channel: &str,
    state: SessionState,
    slot: Option<u32>,
) -> SessionId {
    let intent = session(Target::new(Some(channel), None, None).unwrap(), "high");
    let id = fixture.record(Session { slot, ..intent }).await;
    let key = Key::new(format!("v3:session:{id}")).unwrap();
    let record = fixture.store.get(&key).await.unwrap().unwrap();
    let text = String::from_utf8(record.value.to_vec()).unwrap();
    let value = text.replace("\"state\":\"NEW\"", &format!("\"state\":\"{state}\"")).into_bytes().into();
    fixture.store.commit(&[Op::Put { key, value, ttl: None }]).await.unwrap();
    id
}

/// Acquires a lease as a crashed worker would leave it.
async fn hold(fixture: &Fixture, key: &str, holder: &SessionId) {
    let (key, holder) = (Key::new(key).unwrap(), tenure_lease::Holder::new(holder.as_str()).unwrap());
    let token =
        tenure_lease::Token::parse(&format!("token-of-a-crashed-worker-{}", key.as_str().len())).unwrap();
    let claim = tenure_lease::Claim::new(key, holder, token, tenure_lease::Ttl::from_secs(600).unwrap());
    fixture.store.acquire(claim).await.unwrap();
}

async fn recovers_everything(fixture: &Fixture) {
    let starting = write_stale_record(fixture, "1:0:1:", SessionState::Starting, Some(0)).await;
    hold(fixture, "lease:service:1:0:1:", &starting).await;
    hold(fixture, "lease:tuner:0", &starting).await;
    let mut later = Vec::new();
    for (number, state) in
        [SessionState::Priming, SessionState::Ready, SessionState::Draining, SessionState::Stopping]
            .into_iter()
            .enumerate()
    {
        later.push((state, write_stale_record(fixture, &format!("1:1:{number}:"), state, Some(1)).await));
    }
    let stopped = write_stale_record(fixture, "1:0:9:", SessionState::Stopped, None).await;
    let before = fixture.get(&stopped).await;

    let worker = fixture.worker().await;
    for (state, id) in later {
        let over = fixture.get(&id).await;
        assert_eq!(
            (over.state, over.reason, over.detail, over.recovered_from),
            (SessionState::Failed, Reason::ProcessEnded, Some(Detail::WorkerRestarted), Some(state))
        );
    }
    assert_eq!(fixture.get(&stopped).await, before, "ended sessions are unchanged");
    let again = fixture.until(&starting, SessionState::Ready).await;
    assert_eq!((again.recovered_from, again.slot), (Some(SessionState::Starting), Some(0)));
    worker.close().await;
}

#[tokio::test]
async fn a_worker_recovers_the_sessions_of_its_predecessor_in_memory() {
    recovers_everything(&Fixture::memory().await).await;
}

#[tokio::test]
async fn a_worker_recovers_the_sessions_of_its_predecessor_on_redis() {
    let redis = RedisServer::start().unwrap();
    recovers_everything(&Fixture::redis(&redis).await).await;
}

#[tokio::test]
async fn processes_of_a_predecessor_exit_before_their_tuner_is_used() {
    let fixture = Fixture::memory().await;
    let id = write_stale_record(&fixture, "1:0:1:", SessionState::Ready, Some(0)).await;
    let mut left = Command::new("sleep").arg("1000").env(SESSION_VARIABLE, id.as_str()).spawn().unwrap();
    let worker = fixture.worker().await;
    // Already dead; its parent may be notified a little later.
    let exited = || left.try_wait().unwrap().is_some();
    tenure_testkit::wait::until("the process has exited", crate::fixture::LIMIT, exited).unwrap();
    worker.close().await;
}

#[tokio::test]
async fn corrupt_records_and_unused_directories_do_not_prevent_a_start() {
    let fixture = Fixture::memory().await;
    let key = Key::new("v3:session:strange").unwrap();
    let value = b"{}".to_vec().into();
    fixture.store.commit(&[Op::Put { key, value, ttl: None }]).await.unwrap();
    let (ours, theirs) =
        (fixture.options.output_dir.join("gone-1"), fixture.options.output_dir.join("photos"));
    for folder in [&ours, &theirs] {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("cat.jpg"), b"x").unwrap();
    }
    std::fs::write(ours.join(".tenure"), b"").unwrap();
    let worker = fixture.worker().await;
    let id = fixture.start("1:0:1:", "high").await;
    fixture.until(&id, SessionState::Ready).await;
    tenure_testkit::wait::until("the unused directory is removed", crate::fixture::LIMIT, || !ours.exists())
        .unwrap();
    assert!(theirs.join("cat.jpg").exists(), "other directories are kept");
    assert_eq!(fixture.log.list(tenure_session::SessionFilter::All, 0, 10).await.unwrap().total, 1);
    worker.close().await;
}

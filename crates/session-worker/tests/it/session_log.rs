//! The session log on each store.

use tenure_lease::Key;
use tenure_session::{
    CreateOutcome, Session, SessionFilter, SessionLog, SessionState, Target, UnixMs, Version,
};
use tenure_testkit::RedisServer;

use crate::fixture::{Fixture, session};

fn live(channel: &str) -> Session {
    session(Target::new(Some(channel), None, None).unwrap(), "high")
}

async fn created(fixture: &Fixture, session: &Session) -> Version {
    match fixture.log.create(session, None).await.unwrap() {
        CreateOutcome::Created(version) => version,
        CreateOutcome::AlreadyMapped => panic!("taken"),
    }
}

/// Overwrites the state of a record without a worker.
async fn overwrite(fixture: &Fixture, session: &Session, state: SessionState) {
    let key = Key::new(format!("v3:session:{}", session.id)).unwrap();
    let record = fixture.store.get(&key).await.unwrap().unwrap();
    let text = String::from_utf8(record.value.to_vec()).unwrap();
    let value = text.replace("\"state\":\"NEW\"", &format!("\"state\":\"{state}\"")).into_bytes().into();
    fixture.store.commit(&[tenure_lease::Op::Put { key, value, ttl: None }]).await.unwrap();
}

async fn an_intent_is_mapped_once(fixture: &Fixture) {
    let (first, second) = (live("1:0:1:"), live("1:0:1:"));
    assert_eq!(first.idempotency, second.idempotency);
    assert_eq!(fixture.log.find_mapping(std::slice::from_ref(&first.idempotency)).await.unwrap(), None);
    let version = created(fixture, &first).await;
    assert_eq!(fixture.log.create(&second, None).await.unwrap(), CreateOutcome::AlreadyMapped);
    assert_eq!(fixture.log.get(&second.id).await.unwrap(), None, "nothing was written");
    let found = fixture.log.find_mapping(std::slice::from_ref(&first.idempotency)).await.unwrap().unwrap();
    assert_eq!((found.version, found.session.as_ref()), (version, Some(&first)));

    overwrite(fixture, &first, SessionState::Failed).await;
    let found = fixture.log.find_mapping(std::slice::from_ref(&first.idempotency)).await.unwrap().unwrap();
    assert_eq!(found.session.unwrap().state, SessionState::Failed);
    assert!(matches!(
        fixture.log.create(&second, Some(found.version)).await.unwrap(),
        CreateOutcome::Created(_)
    ));
    let third = live("1:0:1:");
    assert_eq!(
        fixture.log.create(&third, Some(found.version)).await.unwrap(),
        CreateOutcome::AlreadyMapped,
        "too late"
    );
}

async fn stop_requests_and_access_times_are_stored(fixture: &Fixture) {
    let intent = live("1:0:4:");
    created(fixture, &intent).await;
    assert!(fixture.request_stop(&intent.id).await);
    assert!(!fixture.request_stop(&intent.id).await);
    assert!(!fixture.request_stop(&intent.id).await);
    assert_eq!(fixture.log.last_seen(&intent.id).await.unwrap(), None);
    for (at, expected) in [(5, 5), (9, 9), (7, 9)] {
        fixture.log.touch(&intent.id, UnixMs(at)).await.unwrap();
        assert_eq!(fixture.log.last_seen(&intent.id).await.unwrap(), Some(UnixMs(expected)));
    }
    assert_eq!(fixture.log.get(&intent.id).await.unwrap(), Some(intent));
}

async fn sessions_are_listed_newest_first_in_pages(fixture: &Fixture) {
    let mut intents = Vec::new();
    for number in 0..5 {
        let intent = live(&format!("1:1:{number}:"));
        created(fixture, &intent).await;
        intents.insert(0, intent);
    }
    let before = fixture.log.list(SessionFilter::All, 0, 100).await.unwrap();
    assert_eq!(before.sessions[..5], intents);
    let page = fixture.log.list(SessionFilter::All, 1, 2).await.unwrap();
    assert_eq!((page.sessions.as_slice(), page.total), (&intents[1..3], before.total));
    assert!(fixture.log.list(SessionFilter::All, 1_000, 10).await.unwrap().sessions.is_empty());
}

async fn changes_are_delivered(fixture: &Fixture) {
    let intent = live("1:0:5:");
    created(fixture, &intent).await;
    let mut changes = fixture.log.changes(&intent.id).await.unwrap();
    // A session whose id has this id as a prefix must not be reported.
    let longer =
        Session { id: tenure_session::SessionId::new(format!("{}0", intent.id)).unwrap(), ..live("1:0:6:") };
    created(fixture, &longer).await;
    overwrite(fixture, &intent, SessionState::Starting).await;
    assert_eq!(changes.next().await.unwrap().map(|session| session.state), Some(SessionState::Starting));
    let key = Key::new(format!("v3:session:{}", intent.id)).unwrap();
    fixture.store.commit(&[tenure_lease::Op::Delete { key }]).await.unwrap();
    assert_eq!(changes.next().await.unwrap(), None);
}

async fn all(fixture: &Fixture) {
    an_intent_is_mapped_once(fixture).await;
    stop_requests_and_access_times_are_stored(fixture).await;
    sessions_are_listed_newest_first_in_pages(fixture).await;
    changes_are_delivered(fixture).await;
}

#[tokio::test]
async fn the_log_meets_its_contract_in_memory() {
    all(&Fixture::memory().await).await;
}

#[tokio::test]
async fn the_log_meets_its_contract_on_redis() {
    let redis = RedisServer::start().unwrap();
    all(&Fixture::redis(&redis).await).await;
}

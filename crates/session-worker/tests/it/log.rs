//! The session log, on every kind of store.

use lease::Key;
use session::{Among, Created, Event, Session, SessionLog, State, Target, UnixMs, Version};
use testkit::RedisServer;

use crate::house::{House, session};

fn live(channel: &str) -> Session {
    session(Target::new(Some(channel), None, None).unwrap(), "high")
}

async fn created(house: &House, session: &Session) -> Version {
    match house.log.create(session, None).await.unwrap() {
        Created::Created(version) => version,
        Created::Taken => panic!("taken"),
    }
}

/// What the record of an ended session looks like, written past the worker.
async fn overwrite(house: &House, session: &Session, state: State) {
    let key = Key::new(format!("v3:session:{}", session.id)).unwrap();
    let record = house.store.get(&key).await.unwrap().unwrap();
    let text = String::from_utf8(record.value.to_vec()).unwrap();
    let value = text.replace("\"state\":\"NEW\"", &format!("\"state\":\"{state}\"")).into_bytes().into();
    house.store.commit(&[lease::Op::Put { key, value, ttl: None }]).await.unwrap();
}

async fn a_wish_is_mapped_once(house: &House) {
    let (first, second) = (live("1:0:1:"), live("1:0:1:"));
    assert_eq!(first.idempotency, second.idempotency);
    assert_eq!(house.log.find(std::slice::from_ref(&first.idempotency)).await.unwrap(), None);
    let version = created(house, &first).await;
    assert_eq!(house.log.create(&second, None).await.unwrap(), Created::Taken);
    assert_eq!(house.log.get(&second.id).await.unwrap(), None, "nothing of it is left");
    let found = house.log.find(std::slice::from_ref(&first.idempotency)).await.unwrap().unwrap();
    assert_eq!((found.version, found.session.as_ref()), (version, Some(&first)));

    overwrite(house, &first, State::Failed).await;
    let found = house.log.find(std::slice::from_ref(&first.idempotency)).await.unwrap().unwrap();
    assert_eq!(found.session.unwrap().state, State::Failed);
    assert!(matches!(house.log.create(&second, Some(found.version)).await.unwrap(), Created::Created(_)));
    let third = live("1:0:1:");
    assert_eq!(house.log.create(&third, Some(found.version)).await.unwrap(), Created::Taken, "too late");
}

async fn a_creation_can_be_taken_back(house: &House) {
    let wish = live("1:0:2:");
    let version = created(house, &wish).await;
    assert!(house.log.withdraw(&wish, version).await.unwrap());
    assert_eq!(house.log.find(std::slice::from_ref(&wish.idempotency)).await.unwrap(), None);
    assert_eq!(house.log.get(&wish.id).await.unwrap().map(|session| session.state), Some(State::Cancelled));

    let picked = live("1:0:3:");
    let version = created(house, &picked).await;
    overwrite(house, &picked, State::Starting).await;
    assert!(!house.log.withdraw(&picked, version).await.unwrap(), "somebody has it");
    assert!(house.log.find(std::slice::from_ref(&picked.idempotency)).await.unwrap().is_some());
}

async fn what_is_said_beside_a_record_is_kept(house: &House) {
    let wish = live("1:0:4:");
    created(house, &wish).await;
    assert!(house.ask_stop(&wish.id).await);
    assert!(!house.ask_stop(&wish.id).await);
    assert!(!house.ask_stop(&wish.id).await);
    assert_eq!(house.log.seen(&wish.id).await.unwrap(), None);
    for (at, expected) in [(5, 5), (9, 9), (7, 9)] {
        house.log.touch(&wish.id, UnixMs(at)).await.unwrap();
        assert_eq!(house.log.seen(&wish.id).await.unwrap(), Some(UnixMs(expected)));
    }
    assert_eq!(house.log.get(&wish.id).await.unwrap(), Some(wish));
}

async fn the_newest_come_first_in_pages(house: &House) {
    let mut wishes = Vec::new();
    for number in 0..5 {
        let wish = live(&format!("1:1:{number}:"));
        created(house, &wish).await;
        wishes.insert(0, wish);
    }
    let before = house.log.list(Among::All, 0, 100).await.unwrap();
    assert_eq!(before.sessions[..5], wishes);
    let page = house.log.list(Among::All, 1, 2).await.unwrap();
    assert_eq!((page.sessions.as_slice(), page.total), (&wishes[1..3], before.total));
    assert!(house.log.list(Among::All, 1_000, 10).await.unwrap().sessions.is_empty());
}

async fn changes_are_told_as_they_come(house: &House) {
    let wish = live("1:0:5:");
    created(house, &wish).await;
    let mut changes = house.log.changes(&wish.id).await.unwrap();
    // Another one whose name begins the same is none of its business.
    let longer = Session { id: session::SessionId::new(format!("{}0", wish.id)).unwrap(), ..live("1:0:6:") };
    created(house, &longer).await;
    overwrite(house, &wish, State::Starting).await;
    assert_eq!(changes.next().await.unwrap().map(|session| session.state), Some(State::Starting));
    let key = Key::new(format!("v3:session:{}", wish.id)).unwrap();
    house.store.commit(&[lease::Op::Delete { key }]).await.unwrap();
    assert_eq!(changes.next().await.unwrap(), None);
}

async fn all(house: &House) {
    a_wish_is_mapped_once(house).await;
    a_creation_can_be_taken_back(house).await;
    what_is_said_beside_a_record_is_kept(house).await;
    the_newest_come_first_in_pages(house).await;
    changes_are_told_as_they_come(house).await;
}

#[tokio::test]
async fn the_log_keeps_its_word_in_memory() {
    all(&House::memory().await).await;
    assert_eq!(
        State::Cancelled.step(Event::Pick),
        session::Step::Illegal,
        "what was withdrawn is not taken up"
    );
}

#[tokio::test]
async fn the_log_keeps_its_word_on_redis() {
    let redis = RedisServer::start().unwrap();
    all(&House::redis(&redis).await).await;
}

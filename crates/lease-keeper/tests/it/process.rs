//! A real holder process, stopped past its TTL and woken up again.

use std::process::Command;
use std::time::Duration;

use lease::{Committed, Holder, Key, Mode, Op, Ttl};
use lease_keeper::{Keeper, Terms};
use lease_store::Store;
use testkit::{Process, RedisServer};

const LIMIT: Duration = Duration::from_secs(30);

fn holder(url: &str) -> Process {
    let mut command = Command::new(testkit::helper_bin("holder").unwrap());
    command.args([url, "tuner", "picture", "1000"]);
    Process::spawn(command).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_stopped_past_its_ttl_gets_no_permit_and_writes_nothing_when_it_wakes() {
    let redis = RedisServer::start().unwrap();
    let url = format!("{}?quarantine_ms=0", redis.url());
    let process = holder(&url);
    process.wait_for_line(|line| line.starts_with("wrote "), LIMIT).unwrap();
    process.pause().unwrap();

    // The next holder gets it once the stopped one's TTL is over, and leaves its mark.
    let store = Store::open(&url).await.unwrap();
    let keeper = Keeper::new(store.clone(), Holder::new("next").unwrap());
    let terms = Terms::new(Ttl::from_secs(10).unwrap());
    let (key, record) = (Key::new("tuner").unwrap(), Key::new("picture").unwrap());
    let guard = keeper.acquire(key, terms, LIMIT).await.unwrap();
    let fence = guard.permit(Duration::ZERO).unwrap().fence(Mode::Strict);
    let mine = [Op::Put { key: record.clone(), value: b"next".as_slice().into(), ttl: None }];
    assert!(matches!(store.write_fenced(&fence, &mine).await.unwrap(), Committed::Written { .. }));

    process.resume().unwrap();
    // It finds out that it lost. What it says before that is no write of the time after.
    process.wait_for_line(|line| line.starts_with("lost "), LIMIT).unwrap();
    let kept = store.get(&record).await.unwrap().unwrap();
    assert_eq!(&*kept.value, b"next", "the stopped holder wrote after its time");
    assert!(guard.state().is_exclusive());
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_holder_is_replaced_once_its_ttl_is_over() {
    let redis = RedisServer::start().unwrap();
    let url = format!("{}?quarantine_ms=0", redis.url());
    let process = holder(&url);
    let held = process.wait_for_line(|line| line.starts_with("held "), LIMIT).unwrap();
    process.wait_for_line(|line| line.starts_with("wrote "), LIMIT).unwrap();
    process.kill9().unwrap();
    let store = Store::open(&url).await.unwrap();
    let keeper = Keeper::new(store.clone(), Holder::new("next").unwrap());
    let terms = Terms::new(Ttl::from_secs(10).unwrap());
    let key = Key::new("tuner").unwrap();
    let guard = keeper.acquire(key, terms, LIMIT).await.unwrap();
    assert!(format!("held {}", guard.generation()) > held, "{held}");
}

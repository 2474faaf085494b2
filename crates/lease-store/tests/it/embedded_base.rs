//! The embedded engine when a sync of its base fails.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Acquired, Claim, Error, Holder, Key, Leases, Op, Phase, Records, Token, Ttl};
use tenure_store::{Local, Options, OsEntropy};

use crate::failing_base::{BaseFaults, FailingBase};

const LIMIT: Duration = Duration::from_secs(30);

fn options(boot: &str) -> Options {
    Options { segment: 8 << 20, boot: Some(boot.into()), ..Options::default() }
}

fn claim(name: &str) -> Claim {
    let (key, holder) = (Key::new(name).unwrap(), Holder::new("holder").unwrap());
    Claim::new(key, holder, Token::random(&OsEntropy), Ttl::from_secs(600).unwrap()).remote()
}

async fn open(directory: &Path, boot: &str) -> (Local, BaseFaults) {
    let faults = BaseFaults::default();
    let storage = FailingBase::new(directory, &faults);
    (Local::open_on(Arc::new(storage), options(boot), None).await.unwrap(), faults)
}

/// Writes until the journal changes its segment, so that a checkpoint begins.
async fn write_until_refused(store: &Local) -> Error {
    let value: Arc<[u8]> = vec![7; 200_000].into();
    for n in 0..1_000 {
        let put = Op::Put { key: Key::new(format!("r/{}", n % 3)).unwrap(), value: value.clone(), ttl: None };
        if let Err(error) = store.commit(&[put]).await {
            return error;
        }
    }
    panic!("nothing was refused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_base_that_failed_to_sync_is_not_opened_again_before_a_reboot() {
    let directory = tempfile::tempdir().unwrap();
    let (store, faults) = open(directory.path(), "one").await;
    let held = claim("held");
    store.acquire(held.clone()).await.unwrap();
    faults.fail_syncs(true);
    write_until_refused(&store).await;
    faults.fail_syncs(false);
    drop(store);
    for _ in 0..2 {
        let refused = Local::open(directory.path(), options("one")).await.unwrap_err();
        assert!(matches!(&refused, Error::Unavailable { .. }), "{refused}");
        assert!(refused.to_string().contains("reboot the machine"), "{refused}");
    }
    let store = Local::open(directory.path(), options("two")).await.unwrap();
    assert_eq!(store.inspect(&held.key).await.unwrap().phase, Phase::Held);
    let answer = store.acquire(claim("next")).await.unwrap();
    assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
    drop(store);
    Local::open(directory.path(), options("two")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_base_that_failed_to_sync_stops_the_store_with_one_reason() {
    let directory = tempfile::tempdir().unwrap();
    let (store, faults) = open(directory.path(), "one").await;
    let held = claim("held");
    store.acquire(held.clone()).await.unwrap();
    faults.fail_syncs(true);
    write_until_refused(&store).await;
    // What readiness asks.
    let failed = async || store.inspect(&held.key).await.is_err();
    tenure_testkit::wait::until_async("the store fails", LIMIT, failed).await.unwrap();
    for why in [
        store.inspect(&held.key).await.unwrap_err().to_string(),
        store.acquire(claim("other")).await.unwrap_err().to_string(),
    ] {
        assert!(why.contains("reboot the machine"), "{why}");
        assert!(!why.contains("free some space"), "{why}");
    }
}

#[tokio::test]
async fn a_base_that_fails_to_sync_while_it_is_opened_is_not_opened_again_before_a_reboot() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path(), "one").await);
    let faults = BaseFaults::default();
    faults.fail_syncs(true);
    let storage = FailingBase::new(directory.path(), &faults);
    Local::open_on(Arc::new(storage), options("one"), None).await.unwrap_err();
    let refused = Local::open(directory.path(), options("one")).await.unwrap_err();
    assert!(refused.to_string().contains("reboot the machine"), "{refused}");
    Local::open(directory.path(), options("two")).await.unwrap();
}

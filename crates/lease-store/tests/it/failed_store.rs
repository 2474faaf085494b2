//! The embedded engine after its disk failed.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure_lease::{
    Acquired, Claim, Error, Holder, Key, Leases, Outcome, Prefix, Query, Records, Result, Token, Ttl,
};
use tenure_store::{Directory, Local, Options, OsEntropy, Storage, StorageFile};

const LIMIT: Duration = Duration::from_secs(30);

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn claim(name: &str) -> Claim {
    let holder = Holder::new("holder").unwrap();
    Claim::new(key(name), holder, Token::random(&OsEntropy), Ttl::from_secs(60).unwrap())
}

/// A directory whose journal stops syncing on demand. Its files share the switch, so that its reference count shows
/// which of them are still open.
struct FailingStorage(Directory, Arc<AtomicBool>);

struct FailingFile(Box<dyn StorageFile>, Arc<AtomicBool>);

impl Storage for FailingStorage {
    fn open(&self, name: &str, size: u64) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(FailingFile(self.0.open(name, size)?, self.1.clone())))
    }

    fn base(&self) -> io::Result<Box<dyn redb::StorageBackend>> {
        self.0.base()
    }
}

impl StorageFile for FailingFile {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        self.0.read()
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write(at, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        match self.1.load(Ordering::SeqCst) {
            true => Err(io::Error::other("the device did not sync")),
            false => self.0.sync(),
        }
    }
}

/// Opens a store with the lock of its directory held, as `Local::open` does.
async fn open(directory: &Path) -> (Local, Arc<AtomicBool>) {
    let broken = Arc::new(AtomicBool::new(false));
    let lock = File::create(directory.join("lock")).unwrap();
    lock.try_lock().unwrap();
    let storage = FailingStorage(Directory::new(directory), broken.clone());
    let options = Options { segment: 8 << 20, ..Options::default() };
    (Local::open_on(Arc::new(storage), options, Some(lock)).await.unwrap(), broken)
}

#[tokio::test]
async fn a_second_open_is_refused_after_a_failed_sync() {
    let directory = tempfile::tempdir().unwrap();
    let (store, broken) = open(directory.path()).await;
    let held = store.acquire(claim("held")).await.unwrap();
    assert!(matches!(held, Acquired::Granted(_)), "{held:?}");
    broken.store(true, Ordering::SeqCst);
    store.acquire(claim("lost")).await.unwrap_err();
    // Of the files only the heartbeat's is left: the writer and the checkpoint have ended.
    tenure_testkit::wait::until("the writer ends", LIMIT, || Arc::strong_count(&broken) == 2).unwrap();
    let refused = Local::open(directory.path(), Options::default()).await.unwrap_err();
    assert!(refused.to_string().contains("is open in"), "{refused}");
    drop(store);
    Local::open(directory.path(), Options::default()).await.unwrap();
}

fn assert_unavailable<T: std::fmt::Debug>(what: &str, answer: Result<T>) {
    match answer {
        Err(Error::Unavailable { why, .. }) => assert!(why.contains("did not sync"), "{what}: {why}"),
        other => panic!("{what}: {other:?}"),
    }
}

#[tokio::test]
async fn a_failed_store_shows_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (store, broken) = open(directory.path()).await;
    let (kept, lost) = (claim("kept").remote(), claim("lost").remote());
    store.acquire(kept.clone()).await.unwrap();
    broken.store(true, Ordering::SeqCst);
    let unknown = store.acquire(lost.clone()).await.unwrap_err();
    assert_eq!(unknown.outcome(), Outcome::Indeterminate, "{unknown}");
    for claim in [kept, lost] {
        assert_unavailable("verify", store.verify(&claim.key, &claim.token).await);
        assert_unavailable("inspect", store.inspect(&claim.key).await);
        assert_unavailable("history", store.history(&claim.key).await);
        assert_unavailable("get", store.get(&claim.key).await);
    }
    let all = Query::new(Prefix::new("").unwrap());
    assert_unavailable("list", store.list(&all).await);
    assert_unavailable("scan", store.scan(&all).await);
    assert_unavailable("discover", store.discover(&all.prefix).await);
    assert_unavailable("read_log", store.read_log(&key("log"), 0, 1).await);
}

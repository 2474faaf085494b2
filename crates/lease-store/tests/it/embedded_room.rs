//! Room in the journal of the embedded engine: what does not fit is refused before it is decided, at once and clearly.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure_lease::{
    Acquired, Claim, Committed, Error, Holder, Key, Leases, Meta, Op, Outcome, Phase, Prefix, Proof, Records,
    Token, Ttl, Wipe, Wiped,
};
use tenure_store::{Directory, Local, Options, OsEntropy, Storage, StorageFile};
use tokio::task::JoinSet;

fn claim(name: &str) -> Claim {
    let (key, holder) = (Key::new(name).unwrap(), Holder::new("holder").unwrap());
    Claim::new(key, holder, Token::random(&OsEntropy), Ttl::from_secs(600).unwrap()).remote()
}

/// A directory whose journal takes a while to sync.
struct SlowStorage(Directory, Arc<AtomicU64>);

struct SlowFile(Box<dyn StorageFile>, Arc<AtomicU64>);

impl Storage for SlowStorage {
    fn open(&self, name: &str, size: u64) -> io::Result<Box<dyn StorageFile>> {
        Ok(Box::new(SlowFile(self.0.open(name, size)?, self.1.clone())))
    }

    fn base(&self) -> io::Result<Box<dyn redb::StorageBackend>> {
        self.0.base()
    }
}

impl StorageFile for SlowFile {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        self.0.read()
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write(at, bytes)
    }

    #[expect(clippy::disallowed_methods, reason = "a slow disk blocks the writer's thread")]
    fn sync(&mut self) -> io::Result<()> {
        std::thread::sleep(Duration::from_millis(self.1.load(Ordering::SeqCst)));
        self.0.sync()
    }
}

async fn open(directory: &tempfile::TempDir, segment: u64, sync_ms: u64) -> Arc<Local> {
    let storage = SlowStorage(Directory::new(directory.path()), Arc::new(AtomicU64::new(sync_ms)));
    let options = Options { segment, ..Options::default() };
    Arc::new(Local::open_on(Arc::new(storage), options, None).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_large_commits_with_slow_syncs_do_not_stop_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory, 16 << 20, 40).await;
    let mut tasks = JoinSet::new();
    for caller in 0..32 {
        let store = store.clone();
        tasks.spawn(async move {
            // 4 MiB each: the journal has room for a few of them at a time.
            let value: Arc<[u8]> = vec![caller as u8; 250_000].into();
            let key = |n: usize| Key::new(format!("large/{caller}/{n}")).unwrap();
            let ops: Vec<_> =
                (0..16).map(|n| Op::Put { key: key(n), value: value.clone(), ttl: None }).collect();
            store.commit(&ops).await
        });
    }
    let mut written = 0;
    for answer in tasks.join_all().await {
        match answer {
            Ok(Committed::Written { .. }) => written += 1,
            Err(error) => assert_eq!(error.outcome(), Outcome::NotApplied, "{error}"),
            other => panic!("{other:?}"),
        }
    }
    assert!(written > 0);
    let answer = store.acquire(claim("after")).await.unwrap();
    assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
}

/// A store with this many leases under `doomed/`, each with a waiter that has a kilobyte of metadata, and a gate.
async fn with_waiters(store: &Arc<Local>, leases: usize) -> (JoinSet<()>, Wipe) {
    let gate = claim("gate");
    let Acquired::Granted(held) = store.acquire(gate.clone()).await.unwrap() else { panic!("busy") };
    let mut holding = JoinSet::new();
    for part in 0..50 {
        let store = store.clone();
        holding.spawn(async move {
            for n in (part..leases).step_by(50) {
                store.acquire(claim(&format!("doomed/{n}"))).await.unwrap();
            }
        });
    }
    holding.join_all().await;
    let mut waiting = JoinSet::new();
    for n in 0..leases {
        let store = store.clone();
        let meta = Meta::new("m".repeat(1_024)).unwrap();
        waiting.spawn(async move {
            let claim = claim(&format!("doomed/{n}")).meta(meta).waiting(Duration::from_secs(600));
            let answer = store.acquire(claim).await.unwrap();
            assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
        });
    }
    let parked = async || {
        let last = store.inspect(&Key::new(format!("doomed/{}", leases - 1)).unwrap()).await.unwrap();
        last.waiters == 1
    };
    tenure_testkit::wait::until_async("the last waiter is parked", Duration::from_secs(60), parked)
        .await
        .unwrap();
    let proof = Proof { key: gate.key, token: gate.token, generation: held.lease.generation };
    (waiting, Wipe { prefix: Prefix::new("doomed/").unwrap(), gate: proof })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_leases_with_waiters_are_wiped_in_one_step() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory, 16 << 20, 0).await;
    // So many free keys that every further one is forgotten.
    let (waiting, wipe) = with_waiters(&store, 10_000).await;
    assert_eq!(store.wipe(wipe).await.unwrap(), Wiped::Wiped { count: 10_000 });
    waiting.join_all().await;
    let answer = store.acquire(claim("after")).await.unwrap();
    assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
    drop(store);
    let store = open(&directory, 16 << 20, 0).await;
    let first = store.inspect(&Key::new("doomed/0").unwrap()).await.unwrap();
    assert_eq!((first.phase, first.meta.as_str().len()), (Phase::Held, 1_024));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wipe_that_does_not_fit_the_journal_is_refused_at_once_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory, 8 << 20, 0).await;
    let (mut waiting, wipe) = with_waiters(&store, 9_000).await;
    let refused = store.wipe(wipe.clone()).await.unwrap_err();
    assert!(matches!(&refused, Error::Invalid { .. }), "{refused}");
    assert!(refused.to_string().contains("make smaller ones"), "{refused}");
    let first = store.inspect(&Key::new("doomed/0").unwrap()).await.unwrap();
    assert_eq!((first.phase, first.waiters), (Phase::Held, 1));
    // Part by part it fits.
    let mut wiped = 0;
    for digit in 1..10 {
        let prefix = Prefix::new(format!("doomed/{digit}")).unwrap();
        match store.wipe(Wipe { prefix, ..wipe.clone() }).await.unwrap() {
            Wiped::Wiped { count } => wiped += count,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(wiped, 8_999);
    waiting.abort_all();
    while waiting.join_next().await.is_some() {}
}

//! The writer thread of the embedded engine: it alone syncs, and its faults reach every caller.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use tenure_lease::{Acquired, Claim, Holder, Key, Leases, Renewal, Renewed, Token, Ttl};
use tenure_store::{Directory, Local, Options, OsEntropy, Storage, StorageFile};
use tokio::task::JoinSet;

use crate::renewals;

const LIMIT: Duration = Duration::from_secs(30);

/// The name of the writer thread.
const WRITER: &str = "tenure-writer";

fn claim(name: &str) -> Claim {
    let (key, holder) = (Key::new(name).unwrap(), Holder::new("holder").unwrap());
    Claim::new(key, holder, Token::random(&OsEntropy), Ttl::from_secs(60).unwrap()).remote()
}

/// Faults of the journal's file, and the threads that synced it.
#[derive(Default)]
struct JournalProbe {
    threads: Mutex<Vec<String>>,
    /// While set, a sync blocks.
    hangs: Mutex<bool>,
    resumed: Condvar,
    panics: AtomicBool,
}

impl JournalProbe {
    fn threads(&self) -> Vec<String> {
        self.threads.lock().unwrap().clone()
    }

    fn hang(&self, hangs: bool) {
        *self.hangs.lock().unwrap() = hangs;
        self.resumed.notify_all();
    }
}

/// A directory whose journal is probed.
struct ProbedStorage(Directory, Arc<JournalProbe>);

struct ProbedFile(Box<dyn StorageFile>, Option<Arc<JournalProbe>>);

impl Storage for ProbedStorage {
    fn open(&self, name: &str, size: u64) -> io::Result<Box<dyn StorageFile>> {
        let probe = name.starts_with("journal").then(|| self.1.clone());
        Ok(Box::new(ProbedFile(self.0.open(name, size)?, probe)))
    }

    fn base(&self) -> io::Result<Box<dyn redb::StorageBackend>> {
        self.0.base()
    }
}

impl StorageFile for ProbedFile {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        self.0.read()
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write(at, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        let Some(probe) = &self.1 else { return self.0.sync() };
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        probe.threads.lock().unwrap().push(name);
        drop(probe.resumed.wait_while(probe.hangs.lock().unwrap(), |hangs| *hangs).unwrap());
        assert!(!probe.panics.load(Ordering::SeqCst), "injected panic");
        self.0.sync()
    }
}

async fn open(directory: &tempfile::TempDir) -> (Arc<Local>, Arc<JournalProbe>) {
    let probe = Arc::new(JournalProbe::default());
    let storage = ProbedStorage(Directory::new(directory.path()), probe.clone());
    let options = Options { segment: 8 << 20, ..Options::default() };
    let store = Local::open_on(Arc::new(storage), options, None).await.unwrap();
    // Opening begins an epoch before there is a writer.
    probe.threads.lock().unwrap().clear();
    (Arc::new(store), probe)
}

async fn acquire(store: &Local, name: &str) {
    let answer = store.acquire(claim(name)).await.unwrap();
    assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_writer_thread_syncs_the_journal() {
    let directory = tempfile::tempdir().unwrap();
    let (store, probe) = open(&directory).await;
    let mut tasks = JoinSet::new();
    for caller in 0..4 {
        let store = store.clone();
        tasks.spawn(async move {
            for n in 0..10 {
                acquire(&store, &format!("{caller}/{n}")).await;
            }
        });
    }
    tasks.join_all().await;
    let threads = probe.threads();
    assert!(!threads.is_empty() && threads.iter().all(|name| name == WRITER), "{threads:?}");
}

#[tokio::test]
async fn a_hung_disk_delays_only_calls_that_need_it() {
    let directory = tempfile::tempdir().unwrap();
    let (store, probe) = open(&directory).await;
    let mine = claim("mine");
    let Acquired::Granted(held) = store.acquire(mine.clone()).await.unwrap() else { panic!("busy") };
    let renewal = Renewal { key: mine.key, token: mine.token, generation: held.lease.generation, ttl: None };
    let before = probe.threads().len();
    probe.hang(true);
    let mut delayed = pin!(acquire(&store, "delayed"));
    assert!(delayed.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    tenure_testkit::wait::until("the sync blocks", LIMIT, || probe.threads().len() > before).unwrap();
    // On the only thread of this runtime.
    assert!(matches!(renewals(store.renew(&[renewal]).await)[0], Renewed::Renewed { .. }));
    probe.hang(false);
    delayed.await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_writer_panic_every_caller_gets_an_error_and_nothing_is_granted() {
    let directory = tempfile::tempdir().unwrap();
    let (store, probe) = open(&directory).await;
    acquire(&store, "kept").await;
    probe.panics.store(true, Ordering::SeqCst);
    let mut tasks = JoinSet::new();
    for n in 0..3 {
        let store = store.clone();
        tasks.spawn(async move { store.acquire(claim(&format!("lost/{n}"))).await });
    }
    for answer in tasks.join_all().await {
        assert!(answer.is_err(), "{answer:?}");
    }
    let refused = store.acquire(claim("other")).await.unwrap_err();
    assert!(refused.to_string().contains("the writer panicked"), "{refused}");
    drop(store);
    let store = Local::open(directory.path(), Options::default()).await.unwrap();
    let kept = store.inspect(&Key::new("kept").unwrap()).await.unwrap();
    assert!(kept.generation.is_some());
}

#[tokio::test]
async fn a_change_is_synced_although_its_caller_was_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let (store, probe) = open(&directory).await;
    {
        let mut dropped = pin!(store.acquire(claim("k")));
        assert!(dropped.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    tenure_testkit::wait::until("the writer syncs", LIMIT, || probe.threads() == [WRITER]).unwrap();
}

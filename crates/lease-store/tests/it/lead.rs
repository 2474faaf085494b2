//! Who syncs: a caller where he stands, or the writer's thread.

use std::future::{Future, poll_fn};
use std::io::{self, Read, Write};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use lease::{Acquired, Claim, Clock, Error, Happened, Holder, Key, Leases, Renewal, Renewed, Sleep};
use lease::{Tick, Token, Ttl, Wall};
use lease_store::{BootClock, Disk, Folder, Local, Medium, Options, OsEntropy};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

const LIMIT: Duration = Duration::from_secs(30);

/// The name of the writer's thread.
const THREAD: &str = "tenure-writer";

fn claim(name: &str) -> Claim {
    let (key, holder) = (Key::new(name).unwrap(), Holder::new("holder").unwrap());
    Claim::new(key, holder, Token::random(&OsEntropy), Ttl::from_secs(60).unwrap()).remote()
}

/// What a disk does, and what it saw.
#[derive(Default)]
struct Notes {
    /// On whose threads the journal was synced.
    threads: Mutex<Vec<String>>,
    /// While set, a sync hangs.
    hangs: Mutex<bool>,
    freed: Condvar,
    fails: AtomicBool,
    panics: AtomicBool,
    /// How long a sync takes, in milliseconds.
    takes: AtomicU64,
    clock: Arc<ByHand>,
}

impl Notes {
    fn threads(&self) -> Vec<String> {
        self.threads.lock().unwrap().clone()
    }

    /// Whether a caller has synced for himself.
    fn led(&self) -> bool {
        self.threads().iter().any(|name| name != THREAD)
    }

    fn hang(&self, hangs: bool) {
        *self.hangs.lock().unwrap() = hangs;
        self.freed.notify_all();
    }
}

/// A clock that only the disk moves, by the time that it takes.
#[derive(Default)]
struct ByHand(AtomicU64);

impl Clock for ByHand {
    fn now(&self) -> Tick {
        Tick::default() + Duration::from_secs(3_600) + Duration::from_millis(self.0.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Wall {
        Wall::from_micros(1_700_000_000_000_000)
    }

    fn sleep_until(&self, _at: Tick) -> Sleep {
        Box::pin(std::future::pending())
    }
}

/// A folder whose journal is watched.
struct Watched(Folder, Arc<Notes>);

struct WatchedFile(Box<dyn Medium>, Option<Arc<Notes>>);

impl Disk for Watched {
    fn open(&self, name: &str, size: u64) -> io::Result<Box<dyn Medium>> {
        let notes = name.starts_with("journal").then(|| self.1.clone());
        Ok(Box::new(WatchedFile(self.0.open(name, size)?, notes)))
    }

    fn base(&self) -> io::Result<Box<dyn redb::StorageBackend>> {
        self.0.base()
    }
}

impl Medium for WatchedFile {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        self.0.read()
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write(at, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        let Some(notes) = &self.1 else { return self.0.sync() };
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        notes.threads.lock().unwrap().push(name);
        drop(notes.freed.wait_while(notes.hangs.lock().unwrap(), |hangs| *hangs).unwrap());
        assert!(!notes.panics.load(Ordering::SeqCst), "as the test wants it");
        notes.clock.0.fetch_add(notes.takes.load(Ordering::SeqCst), Ordering::SeqCst);
        match notes.fails.load(Ordering::SeqCst) {
            true => Err(io::Error::other("the device did not sync")),
            false => self.0.sync(),
        }
    }
}

/// A store on a disk that is watched, whose callers may sync, with the disk's own clock or the machine's.
async fn open(folder: &tempfile::TempDir, real: bool) -> (Arc<Local>, Arc<Notes>) {
    let notes = Arc::new(Notes::default());
    let clock: Arc<dyn Clock> = if real { Arc::new(BootClock) } else { notes.clock.clone() };
    let options = Options { segment: 8 << 20, clock, callers_sync: true, ..Options::default() };
    (open_with(folder, &notes, options).await, notes)
}

async fn open_with(folder: &tempfile::TempDir, notes: &Arc<Notes>, options: Options) -> Arc<Local> {
    let disk = Watched(Folder::new(folder.path()), notes.clone());
    Arc::new(Local::open_on(Arc::new(disk), options, None).await.unwrap())
}

async fn acquire(store: &Local, name: &str) {
    let answer = store.acquire(claim(name)).await.unwrap();
    assert!(matches!(answer, Acquired::Granted(_)), "{answer:?}");
}

/// Acquires until a caller has synced for himself: another store of this process may be in his way.
async fn until_led(store: &Local, notes: &Notes) {
    let mut n = 0;
    while !notes.led() {
        acquire(store, &format!("warm/{n}")).await;
        n += 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_writers_thread_syncs_unless_the_store_was_opened_otherwise() {
    let (folder, notes) = (tempfile::tempdir().unwrap(), Arc::new(Notes::default()));
    let options = Options { clock: notes.clock.clone(), ..Options::default() };
    let store = open_with(&folder, &notes, options).await;
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
    assert!(!notes.threads().is_empty());
    assert!(!notes.led(), "{:?}", notes.threads());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_quick_disk_a_caller_syncs_where_he_stands() {
    let folder = tempfile::tempdir().unwrap();
    let (store, notes) = open(&folder, false).await;
    until_led(&store, &notes).await;
    drop(store);
    let store = Local::open(folder.path(), Options::default()).await.unwrap();
    let found = store.inspect(&Key::new("warm/0").unwrap()).await.unwrap();
    assert!(found.generation.is_some(), "what a caller wrote is not there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_disk_is_left_to_the_thread_until_it_is_quick_again() {
    let folder = tempfile::tempdir().unwrap();
    let (store, notes) = open(&folder, false).await;
    notes.takes.store(10, Ordering::SeqCst);
    acquire(&store, "first").await;
    for n in 0..20 {
        acquire(&store, &format!("slow/{n}")).await;
    }
    let slow = notes.threads().split_off(1);
    assert_eq!(slow, [THREAD; 20], "10 ms are long");
    notes.takes.store(0, Ordering::SeqCst);
    notes.threads.lock().unwrap().clear();
    until_led(&store, &notes).await;
}

#[test]
fn where_a_runtime_has_one_thread_it_does_not_wait_for_a_disk() {
    let mut builders =
        [tokio::runtime::Builder::new_current_thread(), tokio::runtime::Builder::new_multi_thread()];
    for builder in &mut builders {
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let (store, notes) = open(&folder, false).await;
            for n in 0..10 {
                acquire(&store, &format!("k/{n}")).await;
            }
            assert_eq!(notes.threads(), [THREAD; 10]);
        });
    }
}

/// Looks at a future again before its task rests, as those who run several futures as one task do.
async fn twice<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Poll::Ready(output),
        Poll::Pending => future.as_mut().poll(context),
    })
    .await
}

/// Answers every byte that comes, after `work`.
async fn answer<W: Future<Output = ()>>(listener: TcpListener, work: impl Fn(u8) -> W) {
    let mut stream = listener.accept().await.unwrap().0;
    while let Ok(byte) = stream.read_u8().await {
        twice(work(byte)).await;
        stream.write_all(&[byte]).await.unwrap();
    }
}

#[test]
fn a_disk_that_hangs_holds_up_nobody_but_those_who_wait_for_it() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mine = claim("mine");
    let (store, notes, held) = runtime.block_on(async {
        let (store, notes) = open(&folder, true).await;
        let Acquired::Granted(held) = store.acquire(mine.clone()).await.unwrap() else { panic!("busy") };
        until_led(&store, &notes).await;
        (store, notes, held)
    });
    let listen = || runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let connect = |listener: &TcpListener| {
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    };
    let (writes, renews) = (listen(), listen());
    let (mut writer, mut renewer) = (connect(&writes), connect(&renews));
    let (writing, renewing) = (store.clone(), store.clone());
    let renewal = Renewal { key: mine.key, token: mine.token, generation: held.lease.generation, ttl: None };
    let mut tasks = JoinSet::new();
    // Whoever hears of a question from the network takes it to the disk, and then nobody may be left to listen.
    tasks.spawn_on(
        answer(writes, move |round| {
            let store = writing.clone();
            async move { acquire(&store, &format!("hangs/{round}")).await }
        }),
        runtime.handle(),
    );
    tasks.spawn_on(
        answer(renews, move |_| {
            let (store, renewal) = (renewing.clone(), renewal.clone());
            async move {
                assert!(matches!(store.renew(&[renewal]).await.unwrap()[0], Renewed::Renewed { .. }));
            }
        }),
        runtime.handle(),
    );
    let hear = |stream: &mut std::net::TcpStream| {
        let mut byte = [0];
        stream.read_exact(&mut byte).map(|()| byte[0])
    };
    for round in 0..5 {
        let before = notes.threads().len();
        notes.hang(true);
        writer.write_all(&[round]).unwrap();
        testkit::wait::until("somebody waits for the disk", LIMIT, || notes.threads().len() > before)
            .unwrap();
        renewer.write_all(&[round]).unwrap();
        assert_eq!(hear(&mut renewer).unwrap(), round);
        notes.hang(false);
        assert_eq!(hear(&mut writer).unwrap(), round);
    }
    runtime.block_on(tasks.shutdown());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sync_that_fails_under_a_caller_stops_granting_as_well() {
    let folder = tempfile::tempdir().unwrap();
    let (store, notes) = open(&folder, false).await;
    until_led(&store, &notes).await;
    notes.fails.store(true, Ordering::SeqCst);
    let unknown = store.acquire(claim("lost")).await.unwrap_err();
    assert_eq!(unknown.happened(), Happened::Maybe, "{unknown}");
    notes.fails.store(false, Ordering::SeqCst);
    let refused = store.acquire(claim("other")).await.unwrap_err();
    assert!(matches!(&refused, Error::Unavailable { .. }), "{refused}");
    assert!(refused.to_string().contains("did not sync"), "{refused}");
    drop(store);
    let store = Local::open(folder.path(), Options::default()).await.unwrap();
    acquire(&store, "other").await;
}

#[test]
fn a_writer_that_panics_leaves_nobody_waiting_and_grants_nothing_more() {
    for workers in [1, 2] {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap();
        runtime.block_on(async {
            let folder = tempfile::tempdir().unwrap();
            let (store, notes) = open(&folder, false).await;
            acquire(&store, "kept").await;
            notes.panics.store(true, Ordering::SeqCst);
            let mut tasks = JoinSet::new();
            for n in 0..3 {
                let store = store.clone();
                tasks.spawn(async move { store.acquire(claim(&format!("lost/{n}"))).await });
            }
            while let Some(ended) = tasks.join_next().await {
                // The one who wrote ends in the panic, the others in an error.
                assert!(ended.is_err() || ended.unwrap().is_err());
            }
            let refused = store.acquire(claim("other")).await.unwrap_err();
            assert!(refused.to_string().contains("the writer panicked"), "{refused}");
            drop(store);
            let store = Local::open(folder.path(), Options::default()).await.unwrap();
            let kept = store.inspect(&Key::new("kept").unwrap()).await.unwrap();
            assert!(kept.generation.is_some());
        });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_goes_before_he_wrote_leaves_it_to_the_thread() {
    let folder = tempfile::tempdir().unwrap();
    let (store, notes) = open(&folder, false).await;
    until_led(&store, &notes).await;
    notes.threads.lock().unwrap().clear();
    {
        let mut asked = pin!(store.acquire(claim("k")));
        let mut context = Context::from_waker(Waker::noop());
        assert!(asked.as_mut().poll(&mut context).is_pending(), "others have their turn first");
        assert!(notes.threads().is_empty());
    }
    testkit::wait::until("the thread writes", LIMIT, || notes.threads() == [THREAD]).unwrap();
}

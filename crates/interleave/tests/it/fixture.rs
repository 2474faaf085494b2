//! A store on a manual clock and on storage with a scheduling point at every write and sync.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use shuttle::future::block_on;
use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use tenure_interleave::{Local, Options, Storage, StorageFile, point};
use tenure_lease::{
    Acquired, Claim, Clock, Entropy, Grant, Holder, Key, Leases, Sleep, Tick, Token, Ttl, Wall,
};

/// Schedules per test: takes seconds on a slow machine.
pub(crate) const TRIES: usize = 300;

/// Fixed, so that failures are reproducible.
const SEED: u64 = 0x7e_20_52;

/// Runs `test` under that many schedules.
pub(crate) fn explore(tries: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut config = Config::new();
    config.stack_size = 1 << 20;
    config.max_steps = MaxSteps::FailAfter(200_000);
    config.failure_persistence = FailurePersistence::Print;
    config.silence_warnings = true;
    Runner::new(RandomScheduler::new_from_seed(SEED, tries), config).run(test);
}

/// After how many schedules `test` failed, if it did.
pub(crate) fn found(tries: usize, test: impl Fn() + Send + Sync + 'static) -> Option<usize> {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    let ended = catch_unwind(AssertUnwindSafe(move || {
        explore(tries, move || {
            counted.fetch_add(1, Ordering::Relaxed);
            test();
        });
    }));
    ended.is_err().then(|| runs.load(Ordering::Relaxed))
}

/// A clock that a test advances.
pub(crate) struct ManualClock(Mutex<(Tick, Vec<Waker>)>);

impl ManualClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new((Tick::from_nanos(3_600_000_000_000), Vec::new()))))
    }

    pub(crate) fn advance(&self, by: Duration) {
        point();
        let sleepers = {
            let mut inner = self.0.lock().unwrap();
            inner.0 = inner.0 + by;
            std::mem::take(&mut inner.1)
        };
        sleepers.into_iter().for_each(Waker::wake);
    }
}

/// [`ManualClock`] as the engine's clock.
pub(crate) struct ClockHandle(pub(crate) Arc<ManualClock>);

impl Clock for ClockHandle {
    fn now(&self) -> Tick {
        self.0.0.lock().unwrap().0
    }

    fn wall(&self) -> Wall {
        Wall::from_micros(1_700_000_000_000_000 + self.now().as_nanos() / 1_000)
    }

    fn sleep_until(&self, at: Tick) -> Sleep {
        let clock = self.0.clone();
        Box::pin(std::future::poll_fn(move |context| {
            let mut inner = clock.0.lock().unwrap();
            if inner.0 >= at {
                return Poll::Ready(());
            }
            inner.1.push(context.waker().clone());
            Poll::Pending
        }))
    }
}

/// Consecutive numbers: no two tokens of a process are equal, and none depends on a schedule.
pub(crate) struct SequentialEntropy;

impl Entropy for SequentialEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = next.to_le_bytes()[i % 8] ^ i as u8;
        }
    }
}

/// Storage in memory that tracks what would survive a crash.
#[derive(Clone, Default)]
pub(crate) struct MemoryStorage {
    files: Arc<Mutex<BTreeMap<String, Arc<Mutex<Contents>>>>>,
    base: Arc<Mutex<Vec<u8>>>,
    /// A sync reports success without taking effect.
    pub(crate) lies: Arc<AtomicBool>,
    /// The number of syncs that succeed before all fail.
    pub(crate) fails_after: Arc<Mutex<Option<usize>>>,
    /// The number of completed journal syncs.
    pub(crate) synced: Arc<AtomicUsize>,
    /// While closed, a sync blocks.
    pub(crate) gate: Arc<Gate>,
}

#[derive(Default)]
struct Contents {
    seen: Vec<u8>,
    durable: Vec<u8>,
}

impl MemoryStorage {
    /// Whether these consecutive bytes would survive a crash of the machine.
    pub(crate) fn keeps(&self, bytes: &[u8]) -> bool {
        let finds = |whole: &[u8]| whole.windows(bytes.len()).any(|window| window == bytes);
        let files = self.files.lock().unwrap();
        files.values().any(|file| finds(&file.lock().unwrap().durable)) || finds(&self.base.lock().unwrap())
    }

    /// The storage after a crash.
    pub(crate) fn crashed(&self) -> Self {
        let next = Self::default();
        for (name, file) in self.files.lock().unwrap().iter() {
            let durable = file.lock().unwrap().durable.clone();
            let contents = Contents { seen: durable.clone(), durable };
            next.files.lock().unwrap().insert(name.clone(), Arc::new(Mutex::new(contents)));
        }
        *next.base.lock().unwrap() = self.base.lock().unwrap().clone();
        next
    }
}

struct MemoryFile {
    storage: MemoryStorage,
    contents: Arc<Mutex<Contents>>,
    journal: bool,
}

impl Storage for MemoryStorage {
    fn open(&self, name: &str, _size: u64) -> io::Result<Box<dyn StorageFile>> {
        let contents = self.files.lock().unwrap().entry(name.to_owned()).or_default().clone();
        Ok(Box::new(MemoryFile { storage: self.clone(), contents, journal: name.starts_with("journal") }))
    }

    fn base(&self) -> io::Result<Box<dyn redb::StorageBackend>> {
        Ok(Box::new(Base(self.base.clone())))
    }
}

impl StorageFile for MemoryFile {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        Ok(self.contents.lock().unwrap().seen.clone())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        point();
        let mut contents = self.contents.lock().unwrap();
        let end = at as usize + bytes.len();
        let len = contents.seen.len().max(end);
        contents.seen.resize(len, 0);
        contents.seen[at as usize..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        point();
        if self.journal {
            self.storage.gate.pass();
            let mut left = self.storage.fails_after.lock().unwrap();
            match left.as_mut() {
                Some(0) => return Err(io::Error::other("the disk is gone")),
                Some(left) => *left -= 1,
                None => {}
            }
        }
        if !self.storage.lies.load(Ordering::Relaxed) {
            let mut contents = self.contents.lock().unwrap();
            contents.durable = contents.seen.clone();
        }
        if self.journal {
            self.storage.synced.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Blocks syncs while it is closed.
#[derive(Default)]
pub(crate) struct Gate {
    closed: shuttle::sync::Mutex<bool>,
    opened: shuttle::sync::Condvar,
}

impl Gate {
    pub(crate) fn close(&self) {
        *self.closed.lock().unwrap() = true;
    }

    pub(crate) fn open(&self) {
        *self.closed.lock().unwrap() = false;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let closed = self.closed.lock().unwrap();
        drop(self.opened.wait_while(closed, |closed| *closed).unwrap());
    }
}

#[derive(Debug)]
struct Base(Arc<Mutex<Vec<u8>>>);

impl redb::StorageBackend for Base {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.lock().unwrap();
        let part = bytes.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(part.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().resize(len as usize, 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap()[offset as usize..offset as usize + data.len()].copy_from_slice(data);
        Ok(())
    }
}

/// A store with its clock and storage.
pub(crate) struct Fixture {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) disk: MemoryStorage,
    pub(crate) store: Arc<Local>,
}

impl Fixture {
    /// A memory store.
    pub(crate) fn memory() -> Self {
        let clock = ManualClock::new();
        let store = Arc::new(Local::memory_on(Arc::new(ClockHandle(clock.clone()))));
        Self { clock, disk: MemoryStorage::default(), store }
    }

    /// An embedded store.
    pub(crate) fn embedded() -> Self {
        Self::on(MemoryStorage::default())
    }

    /// An embedded store on this storage.
    pub(crate) fn on(disk: MemoryStorage) -> Self {
        let clock = ManualClock::new();
        let face = Arc::new(ClockHandle(clock.clone()));
        let options = Options { clock: face, segment: 8 << 20, boot: Some("boot".into()) };
        let store = block_on(Local::open_on(Arc::new(disk.clone()), options, None)).unwrap();
        Self { clock, disk, store: Arc::new(store) }
    }
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// A claim with a token of its own.
pub(crate) fn claim(name: &str) -> Claim {
    let holder = Holder::new("holder").unwrap();
    Claim::new(key(name), holder, Token::random(&SequentialEntropy), Ttl::from_secs(30).unwrap())
}

/// The same, with a wait.
pub(crate) fn patient(name: &str) -> Claim {
    claim(name).waiting(Duration::from_secs(60))
}

pub(crate) fn granted(answer: tenure_lease::Result<Acquired>) -> Grant {
    match answer.unwrap() {
        Acquired::Granted(grant) => grant,
        Acquired::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

pub(crate) fn acquire(store: &Local, claim: Claim) -> Grant {
    granted(block_on(store.acquire(claim)))
}

pub(crate) fn release(store: &Local, claim: &Claim) {
    let release = tenure_lease::Release::new(claim.key.clone(), claim.token.clone());
    assert_eq!(block_on(store.release(release)).unwrap(), tenure_lease::Released::Released);
}

/// Polls a future until it waits, once.
pub(crate) fn begin<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(Waker::noop());
    match std::pin::Pin::new(future).poll(&mut context) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

//! A disk whose every write and sync is a place to be interrupted, a clock that stands still, and a store on them.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use interleave::{Disk, Local, Medium, Options, leading, point};
use lease::{Acquired, Claim, Clock, Entropy, Grant, Holder, Key, Leases, Sleep, Tick, Token, Ttl, Wall};
use shuttle::future::block_on;
use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

/// Schedules tried per test: what fits into seconds on a slow machine.
pub(crate) const TRIES: usize = 300;

/// Fixed, so that a failure today is a failure tomorrow.
const SEED: u64 = 0x7e_20_52;

/// Runs `test` under that many schedules: half of them with callers who write themselves.
pub(crate) fn explore(tries: usize, test: impl Fn() + Send + Sync + 'static) {
    let test = Arc::new(test);
    for may in [false, true] {
        let test = test.clone();
        run(tries.div_ceil(2), move || {
            leading(may);
            test();
        });
    }
}

fn run(tries: usize, test: impl Fn() + Send + Sync + 'static) {
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

/// A clock that a test moves.
pub(crate) struct StillClock(Mutex<(Tick, Vec<Waker>)>);

impl StillClock {
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

/// What the engine sees of [`StillClock`].
pub(crate) struct Face(pub(crate) Arc<StillClock>);

impl Clock for Face {
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

/// Numbers in a row: no two tokens of a process are the same, and none depends on a schedule.
pub(crate) struct Counted;

impl Entropy for Counted {
    fn fill(&self, bytes: &mut [u8]) {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = next.to_le_bytes()[i % 8] ^ i as u8;
        }
    }
}

/// A disk in memory that knows what would survive a crash.
#[derive(Clone, Default)]
pub(crate) struct Platter {
    files: Arc<Mutex<BTreeMap<String, Arc<Mutex<Contents>>>>>,
    base: Arc<Mutex<Vec<u8>>>,
    /// Says that it synced before it did.
    pub(crate) lies: Arc<AtomicBool>,
    /// How many syncs succeed before all fail.
    pub(crate) fails_after: Arc<Mutex<Option<usize>>>,
    /// How many syncs of the journal were done, and how many of those by callers.
    pub(crate) synced: Arc<AtomicUsize>,
    pub(crate) led: Arc<AtomicUsize>,
    /// While closed, a sync waits.
    pub(crate) gate: Arc<Gate>,
}

#[derive(Default)]
struct Contents {
    seen: Vec<u8>,
    durable: Vec<u8>,
}

impl Platter {
    /// Whether these bytes in a row would survive a crash of the machine.
    pub(crate) fn keeps(&self, bytes: &[u8]) -> bool {
        let finds = |whole: &[u8]| whole.windows(bytes.len()).any(|window| window == bytes);
        let files = self.files.lock().unwrap();
        files.values().any(|file| finds(&file.lock().unwrap().durable)) || finds(&self.base.lock().unwrap())
    }

    /// The disk as the next boot finds it.
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

struct Track {
    platter: Platter,
    contents: Arc<Mutex<Contents>>,
    journal: bool,
}

impl Disk for Platter {
    fn open(&self, name: &str, _size: u64) -> io::Result<Box<dyn Medium>> {
        let contents = self.files.lock().unwrap().entry(name.to_owned()).or_default().clone();
        Ok(Box::new(Track { platter: self.clone(), contents, journal: name.starts_with("journal") }))
    }

    fn base(&self) -> io::Result<Box<dyn redb::StorageBackend>> {
        Ok(Box::new(Base(self.base.clone())))
    }
}

impl Medium for Track {
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
            if shuttle::thread::current().name() != Some("tenure-writer") {
                self.platter.led.fetch_add(1, Ordering::Relaxed);
            }
            self.platter.gate.pass();
            let mut left = self.platter.fails_after.lock().unwrap();
            match left.as_mut() {
                Some(0) => return Err(io::Error::other("the disk is gone")),
                Some(left) => *left -= 1,
                None => {}
            }
        }
        if !self.platter.lies.load(Ordering::Relaxed) {
            let mut contents = self.contents.lock().unwrap();
            contents.durable = contents.seen.clone();
        }
        if self.journal {
            self.platter.synced.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Holds syncs back while it is closed.
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

/// A store and what it stands on.
pub(crate) struct World {
    pub(crate) clock: Arc<StillClock>,
    pub(crate) disk: Platter,
    pub(crate) store: Arc<Local>,
}

impl World {
    /// A store that forgets.
    pub(crate) fn memory() -> Self {
        let clock = StillClock::new();
        let store = Arc::new(Local::memory_on(Arc::new(Face(clock.clone()))));
        Self { clock, disk: Platter::default(), store }
    }

    /// A store on a disk.
    pub(crate) fn embedded() -> Self {
        Self::on(Platter::default())
    }

    /// A store on this disk.
    pub(crate) fn on(disk: Platter) -> Self {
        let clock = StillClock::new();
        let face = Arc::new(Face(clock.clone()));
        let options =
            Options { clock: face, segment: 8 << 20, boot: Some("boot".into()), callers_sync: true };
        let store = block_on(Local::open_on(Arc::new(disk.clone()), options, None)).unwrap();
        Self { clock, disk, store: Arc::new(store) }
    }
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// A claim of somebody with a token of its own.
pub(crate) fn claim(name: &str) -> Claim {
    let holder = Holder::new("holder").unwrap();
    Claim::new(key(name), holder, Token::random(&Counted), Ttl::from_secs(30).unwrap())
}

/// The same, prepared to wait.
pub(crate) fn patient(name: &str) -> Claim {
    claim(name).waiting(Duration::from_secs(60))
}

pub(crate) fn granted(answer: lease::Result<Acquired>) -> Grant {
    match answer.unwrap() {
        Acquired::Granted(grant) => grant,
        Acquired::Busy(busy) => panic!("busy: {busy:?}"),
    }
}

pub(crate) fn acquire(store: &Local, claim: Claim) -> Grant {
    granted(block_on(store.acquire(claim)))
}

pub(crate) fn release(store: &Local, claim: &Claim) {
    let release = lease::Release::new(claim.key.clone(), claim.token.clone());
    assert_eq!(block_on(store.release(release)).unwrap(), lease::Released::Released);
}

/// Polls a future until it waits, once.
pub(crate) fn begin<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(Waker::noop());
    match std::pin::Pin::new(future).poll(&mut context) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

//! Opening a directory: lock, replay, load, start.

use std::fs::File;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Capabilities, Clock, Durability, Entropy, Error, Result, Tick};

use super::base::{Base, Unsynced};
use super::checkpoint::{Checkpoint, CheckpointWorker};
use super::frames::{self, Preamble};
use super::heartbeat::{self, Heartbeat};
use super::journal::{Journal, Segment, describe_io_error};
use super::load;
use super::recovery::{self, BaseState};
use super::storage::{Directory, Storage};
use super::writer::{FRAME_OVERHEAD, Writer};
use crate::local::durable::DurableState;
use crate::local::engine::{Engine, Local};
use crate::local::table::{Now, Table};
use crate::sync::{spawn_blocking, thread};
use crate::{BootClock, OsEntropy};

/// The interval of heartbeats.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(250);

/// The smallest journal segment: the largest commit fits into half of it.
const MIN_SEGMENT: u64 = 8 << 20;

/// A process of this boot could not sync the base.
pub(crate) const UNSYNCED_IN_THIS_BOOT: &str = "base.redb could not be synced in this boot of the machine, so what the system shows \
     of it may not be on the disk: reboot the machine, or unmount and mount its file system and delete the file `alive`; \
     nothing acknowledged is lost, the journal has it";

/// Options of an embedded store.
#[derive(Clone)]
pub struct Options {
    /// The clock; [`BootClock`] by default.
    pub clock: Arc<dyn Clock>,
    /// The size of each of the two journal segments, in bytes; at least 8 MiB.
    pub segment: u64,
    /// An identifier of this boot of the machine; the kernel's boot id by default.
    pub boot: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { clock: Arc::new(BootClock), segment: 16 << 20, boot: None }
    }
}

impl Local {
    /// Opens the store in a directory, created if missing. Only one process can have it open.
    pub async fn open(directory: impl AsRef<Path>, options: Options) -> Result<Self> {
        let directory = directory.as_ref().to_path_buf();
        let lock = lock(&directory)?;
        Self::open_on(Arc::new(Directory::new(directory)), options, Some(lock)).await
    }

    /// Opens the store on any storage; `lock` is held while the store is open.
    pub async fn open_on(storage: Arc<dyn Storage>, options: Options, lock: Option<File>) -> Result<Self> {
        if options.segment < MIN_SEGMENT {
            let why = format!(
                "{} bytes are too few for the largest change; at least {MIN_SEGMENT} are required",
                options.segment
            );
            return Err(Error::invalid("segment", why));
        }
        // The lock goes along, so that it outlasts the work of an opening whose caller is gone.
        let opening = spawn_blocking(move || prepare(storage, options).map(|parts| (parts, lock)));
        let ((mut writer, worker, engine), lock) =
            opening.await.map_err(|e| Error::unavailable("embedded", "opening was aborted").because(e))??;
        writer
            .checkpoint
            .start(worker)
            .map_err(|e| Error::unavailable("embedded", "cannot start the checkpoint thread").because(e))?;
        let serving = engine.clone();
        let thread = thread::Builder::new()
            .name("tenure-writer".into())
            .spawn(move || writer.run(&serving))
            .map_err(|e| Error::unavailable("embedded", "cannot start the writer thread").because(e))?;
        let mut local = Self::start(engine);
        local.writer = Some(thread);
        local.lock = lock;
        local.tasks.spawn(write_heartbeats(Arc::downgrade(&local.engine)));
        Ok(local)
    }
}

/// Replays the journal, loads the table and returns the parts of the store, none of which runs yet.
pub(crate) fn prepare(
    storage: Arc<dyn Storage>,
    options: Options,
) -> Result<(Writer, CheckpointWorker, Arc<Engine>)> {
    let size = options.segment;
    let file = storage.open("alive", heartbeat::FILE).map_err(unusable)?;
    let mut heartbeat = Heartbeat::new(file, &boot_id(options.boot)?);
    let last = heartbeat.last().map_err(unusable)?;
    if last.is_some_and(|last| last.base_unsynced) && !broken(Break::OpensUnsyncedBase) {
        return Err(Error::unavailable("embedded", UNSYNCED_IN_THIS_BOOT));
    }
    let (mut journal, segments) = Journal::open(&*storage, size)?;
    let (now, unsynced) = (Now::read(&*options.clock), Unsynced::default());
    let opened = open_base(&*storage, &segments, &unsynced).and_then(|base| {
        let table = replay(&base, &mut journal, &segments, last.map(|last| last.at), now)?;
        Ok((base, table))
    });
    if opened.is_err() && unsynced.is_set() {
        heartbeat.mark_base_unsynced().map_err(unusable)?;
    }
    let (base, table) = opened?;
    heartbeat.write(now.tick).map_err(unusable)?;
    let durable = DurableState::new(heartbeat, now.tick, size - FRAME_OVERHEAD);
    let capabilities =
        Capabilities { durability: Durability::Synced, ..Capabilities::in_process("embedded") };
    let engine = Engine::new(table, options.clock, capabilities, Some(durable));
    let (checkpoint, worker) = Checkpoint::new(base, unsynced, storage, engine.clone());
    Ok((Writer::new(journal, checkpoint, size), worker, engine))
}

/// Opens the base. Only a first opening that was interrupted leaves a base that redb refuses.
fn open_base(storage: &dyn Storage, segments: &[Vec<u8>; 2], unsynced: &Unsynced) -> Result<Base> {
    match segments.iter().any(|bytes| frames::preamble(bytes).is_some()) {
        true => Base::open(storage, unsynced),
        false => Base::open_first(storage, unsynced),
    }
}

/// Brings the base up to date, begins a new epoch and loads the table. The order keeps the rules of [`recovery`]: frame 0
/// of the new epoch is durable before the base has the last epoch, and the base has the changes of this opening before the
/// first call. Those go to the base because there may be more of them than fit into the journal.
fn replay(
    base: &Base,
    journal: &mut Journal,
    segments: &[Vec<u8>; 2],
    last_alive: Option<Tick>,
    now: Now,
) -> Result<Table> {
    let state = base.state()?;
    let mut live = recovery::plan(state, segments)?;
    let last = live.pop();
    for (_, epoch) in live {
        base.apply(&Segment { epoch: epoch.epoch, batches: epoch.batches })?;
    }
    let id = state.map_or_else(random_id, |state| state.id);
    let opening = state.map_or(0, |state| state.openings) + 1;
    let (segment, applied, previous_frames) = match &last {
        Some((segment, last)) => (1 - segment, last.epoch, last.batches.len() as u64),
        None => (0, 0, 0),
    };
    if let Some((segment, last)) = &last {
        // The next epoch counts these frames: they must be on the disk before it is.
        let read = segments[*segment].get(..last.end).unwrap_or_default();
        journal.rewrite(*segment, read).map_err(unusable)?;
    }
    journal.begin(segment, applied + 1, Preamble { id, opening, previous_frames }).map_err(unusable)?;
    if let Some((_, last)) = last {
        base.apply(&Segment { epoch: last.epoch, batches: last.batches })?;
    }
    let mut table = load::load(base, last_alive, now)?;
    let rows = std::mem::take(&mut table.effects.rows);
    base.record_opening(&BaseState { id, applied, openings: opening }, rows)?;
    Ok(table)
}

/// The id of a new store.
pub(crate) fn random_id() -> u64 {
    let mut bytes = [0; 8];
    OsEntropy.fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// Writes heartbeats until the store is dropped.
async fn write_heartbeats(engine: Weak<Engine>) {
    loop {
        let Some(strong) = engine.upgrade() else { return };
        let now = strong.clock.now();
        let next = strong.clock.sleep_until(now + HEARTBEAT_INTERVAL);
        // A hung disk must not block the runtime.
        let signing = spawn_blocking(move || match &strong.durable {
            Some(durable) => durable.write_heartbeat(now, Duration::ZERO),
            None => Ok(()),
        });
        if let Ok(Err(error)) = signing.await {
            tracing::error!(%error, "cannot write the heartbeat");
        }
        next.await;
    }
}

/// Locks the directory. The operating system releases the lock when this process ends.
pub(crate) fn lock(directory: &PathBuf) -> Result<File> {
    // Records may be secrets: other users of the machine must not read them.
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|e| {
        let why = format!("cannot create the directory {}: {}", directory.display(), describe_io_error(&e));
        Error::unavailable("embedded", why).because(e)
    })?;
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(directory.join("lock"))
        .map_err(unusable)?;
    match file.try_lock() {
        _ if broken(Break::NoDirectoryLock) => {}
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => {
            let pid = std::fs::read_to_string(directory.join("lock")).unwrap_or_default();
            let owner = match pid.trim() {
                "" => String::from("another process"),
                pid => format!("process {pid}"),
            };
            let why = format!(
                "the directory {} is open in {owner}; only one process can open it: stop that process, choose \
                 another directory, or connect to its server",
                directory.display()
            );
            return Err(Error::unavailable("embedded", why));
        }
        Err(std::fs::TryLockError::Error(e)) => return Err(unusable(e)),
    }
    use std::io::Write;
    let mut writing = &file;
    file.set_len(0).and_then(|()| writeln!(writing, "{}", std::process::id())).map_err(unusable)?;
    Ok(file)
}

pub(crate) fn unusable(error: std::io::Error) -> Error {
    let why = format!("cannot use the directory: {}", describe_io_error(&error));
    Error::unavailable("embedded", why).because(error)
}

/// The identifier of this boot.
pub(crate) fn boot_id(given: Option<String>) -> Result<String> {
    match given {
        Some(boot) => Ok(boot),
        None => std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|id| id.trim().to_owned())
            .map_err(|e| Error::unavailable("embedded", "cannot read the kernel's boot id").because(e)),
    }
}

//! Opening a folder: lock, replay, load, serve.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use lease::{Clock, Error, Result};

use super::base::Base;
use super::checkpoint::{Checkpoint, Worker};
use super::desk;
use super::journal::{Journal, Segment, in_words};
use super::load;
use super::medium::{Disk, Folder};
use super::stamp::{self, Stamp};
use super::writer::Writer;
use crate::BootClock;
use crate::local::engine::{Durable, Local, Shared};
use crate::local::memory::in_process;
use crate::local::table::Now;
use crate::sync::{spawn_blocking, thread};

/// How often the sign of life is written.
const PULSE: Duration = Duration::from_millis(250);

/// The smallest journal segment: half of it takes the largest commit or wipe.
const MIN_SEGMENT: u64 = 8 << 20;

/// How an embedded store is opened.
#[derive(Clone)]
pub struct Options {
    /// The clock; the machine's by default.
    pub clock: Arc<dyn Clock>,
    /// The size of each of the two journal segments, in bytes; at least 8 MiB.
    pub segment: u64,
    /// What tells one boot of the machine from another; the kernel's boot id by default.
    pub boot: Option<String>,
    /// Whether a call may write and sync on its own thread instead of waking the writer's, where the disk is quick and the
    /// runtime has other threads. That is for a process whose runtime serves the store and nothing else; off by default.
    pub callers_sync: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { clock: Arc::new(BootClock), segment: 16 << 20, boot: None, callers_sync: false }
    }
}

impl Local {
    /// Opens the store in a folder, which is made if it is not there. One process at a time may have it open.
    pub async fn open(folder: impl AsRef<Path>, options: Options) -> Result<Self> {
        let folder = folder.as_ref().to_path_buf();
        let lock = lock(&folder)?;
        Self::open_on(Arc::new(Folder::new(folder)), options, Some(lock)).await
    }

    /// Opens the store on any disk; `held` is kept for as long as the store is open.
    pub async fn open_on(disk: Arc<dyn Disk>, options: Options, held: Option<File>) -> Result<Self> {
        if options.segment < MIN_SEGMENT {
            let why = format!(
                "{} bytes are too few for the largest change, at least {MIN_SEGMENT} are needed",
                options.segment
            );
            return Err(Error::invalid("segment", why));
        }
        let opening = spawn_blocking(move || prepare(disk, options));
        let (mut writer, worker, shared) =
            opening.await.map_err(|e| Error::unavailable("embedded", "opening was aborted").because(e))??;
        writer
            .checkpoint
            .start(worker)
            .map_err(|e| Error::unavailable("embedded", "the checkpoint thread did not start").because(e))?;
        let (serving, writer) = (shared.clone(), Box::new(writer));
        let run = move || {
            let _held = held;
            desk::serve(&serving, writer);
        };
        let thread = thread::Builder::new()
            .name("tenure-writer".into())
            .spawn(run)
            .map_err(|e| Error::unavailable("embedded", "the writer thread did not start").because(e))?;
        let mut local = Self::start(shared);
        local.writer = Some(thread);
        local.tasks.spawn(pulse(Arc::downgrade(&local.shared)));
        Ok(local)
    }
}

/// Replays, loads and gives what serves the store, none of which runs yet.
pub(crate) fn prepare(disk: Arc<dyn Disk>, options: Options) -> Result<(Writer, Worker, Arc<Shared>)> {
    let (size, callers) = (options.segment, options.callers_sync);
    let (mut journal, segments) = Journal::open(&*disk, size)?;
    let base = if segments.is_empty() { Base::open_first(&*disk)? } else { Base::open(&*disk)? };
    let mut turn = base.applied()?;
    for segment in segments.iter().filter(|segment| segment.turn > turn) {
        base.apply(segment)?;
    }
    turn = segments.iter().map(|segment| segment.turn).max().unwrap_or(0).max(turn);
    let medium = disk.open("alive", stamp::FILE).map_err(unusable)?;
    let mut stamp = Stamp::new(medium, &boot_id(options.boot)?);
    let last_alive = stamp.last().map_err(unusable)?;
    let now = Now::read(&*options.clock);
    let mut table = load::load(&base, last_alive, now)?;
    // The new floor and the ends of orphaned reigns, of which there may be more than a journal takes, are in the
    // base before anyone is served.
    turn += 1;
    base.apply(&Segment { turn, batches: vec![std::mem::take(&mut table.out.rows)] })?;
    journal.begin(turn);
    stamp.write(now.tick).map_err(unusable)?;
    let durable = Durable::new(stamp, now.tick, size / 2);
    let shared = Shared::new(table, options.clock, in_process(), Some(durable));
    let (checkpoint, worker) = Checkpoint::new(base, disk, shared.clone());
    Ok((Writer::new(journal, checkpoint, size, callers), worker, shared))
}

/// Writes the sign of life until the store is gone.
async fn pulse(shared: Weak<Shared>) {
    loop {
        let Some(strong) = shared.upgrade() else { return };
        let now = strong.clock.now();
        let next = strong.clock.sleep_until(now + PULSE);
        // A disk that hangs must not hang the runtime.
        let signing = spawn_blocking(move || match &strong.durable {
            Some(durable) => durable.sign(now, Duration::ZERO),
            None => Ok(()),
        });
        if let Ok(Err(error)) = signing.await {
            tracing::error!(%error, "the sign of life could not be written");
        }
        next.await;
    }
}

/// Takes the folder's lock, which the operating system gives back when this process ends, however it ends.
fn lock(folder: &PathBuf) -> Result<File> {
    std::fs::create_dir_all(folder).map_err(|e| {
        let why = format!("cannot make the folder {}: {}", folder.display(), in_words(&e));
        Error::unavailable("embedded", why).because(e)
    })?;
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(folder.join("lock"))
        .map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => {
            let pid = std::fs::read_to_string(folder.join("lock")).unwrap_or_default();
            let who = match pid.trim() {
                "" => String::from("another process"),
                pid => format!("process {pid}"),
            };
            let why = format!(
                "the folder {} is open in {who}; one process at a time may have it: stop that one, choose \
                 another folder, or connect to it",
                folder.display()
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

fn unusable(error: std::io::Error) -> Error {
    let why = format!("the folder cannot be used: {}", in_words(&error));
    Error::unavailable("embedded", why).because(error)
}

/// What tells this boot of the machine from any other.
fn boot_id(given: Option<String>) -> Result<String> {
    match given {
        Some(boot) => Ok(boot),
        None => std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map(|id| id.trim().to_owned())
            .map_err(|e| Error::unavailable("embedded", "the kernel's boot id cannot be read").because(e)),
    }
}

//! A directory whose disk can stand still or lose its power, and that forgets what was not synced when its files are
//! closed: what a store finds there is what a power loss would have left.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tenure_store::{Directory, Storage, StorageFile};

/// The heartbeat is written without a sync: it need not survive the machine.
const HEARTBEAT: &str = "alive";

/// Whether the disk stands still. Clones share the switch.
#[derive(Clone, Default)]
pub(crate) struct Stalled(Arc<(Mutex<bool>, Condvar)>);

/// Ends a stall when dropped.
pub(crate) struct Stall(Stalled);

impl Stalled {
    /// From now on nothing is written or synced, until the stall is dropped.
    pub(crate) fn begin(&self) -> Stall {
        *self.lock() = true;
        Stall(self.clone())
    }

    fn wait(&self) {
        let ended = self.0.1.wait_while(self.lock(), |stalled| *stalled);
        drop(ended.unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stall {
    fn drop(&mut self) {
        *self.0.lock() = false;
        self.0.0.1.notify_all();
    }
}

/// The power of a disk. Clones share the switch.
#[derive(Clone, Default)]
pub(crate) struct Power {
    off: Arc<AtomicBool>,
}

impl Power {
    /// From now on every write and sync fails, and what was not synced is lost.
    pub(crate) fn cut(&self) {
        self.off.store(true, Ordering::SeqCst);
    }

    fn check(&self) -> io::Result<()> {
        match self.off.load(Ordering::SeqCst) {
            true => Err(io::Error::other("the power is off")),
            false => Ok(()),
        }
    }
}

pub(crate) struct ForgetfulStorage {
    directory: Directory,
    stalled: Stalled,
    power: Power,
}

impl ForgetfulStorage {
    pub(crate) fn new(directory: &Path, stalled: &Stalled, power: &Power) -> Self {
        Self { directory: Directory::new(directory), stalled: stalled.clone(), power: power.clone() }
    }
}

impl Storage for ForgetfulStorage {
    fn open(&self, name: &str, size: u64) -> io::Result<Box<dyn StorageFile>> {
        let file = self.directory.open(name, size)?;
        let (stalled, power, syncs) = (self.stalled.clone(), self.power.clone(), name != HEARTBEAT);
        Ok(Box::new(ForgetfulFile { file, stalled, power, syncs, unsynced: Vec::new() }))
    }

    fn base(&self) -> io::Result<Box<dyn redb::StorageBackend>> {
        self.directory.base()
    }
}

struct ForgetfulFile {
    file: Box<dyn StorageFile>,
    stalled: Stalled,
    power: Power,
    syncs: bool,
    unsynced: Vec<(u64, Vec<u8>)>,
}

impl StorageFile for ForgetfulFile {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = self.file.read()?;
        for (at, written) in &self.unsynced {
            let at = *at as usize;
            bytes[at..at + written.len()].copy_from_slice(written);
        }
        Ok(bytes)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.stalled.wait();
        self.power.check()?;
        if !self.syncs {
            return self.file.write(at, bytes);
        }
        self.unsynced.push((at, bytes.to_vec()));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.stalled.wait();
        self.power.check()?;
        for (at, bytes) in self.unsynced.drain(..) {
            self.file.write(at, &bytes)?;
        }
        self.file.sync()
    }
}

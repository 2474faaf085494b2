//! A folder that counts how often the journal is synced.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lease_store::{Disk, Folder, Medium};

/// A folder and its counters.
pub(crate) struct Counting {
    folder: Folder,
    pub(crate) counts: Arc<Counts>,
}

/// How much was written.
#[derive(Default)]
pub(crate) struct Counts {
    syncs: AtomicU64,
    bytes: AtomicU64,
}

impl Counts {
    /// Syncs of the journal and bytes written to it so far.
    pub(crate) fn read(&self) -> (u64, u64) {
        (self.syncs.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

impl Counting {
    pub(crate) fn new(folder: Folder) -> Self {
        Self { folder, counts: Arc::default() }
    }
}

impl Disk for Counting {
    fn open(&self, name: &str, size: u64) -> io::Result<Box<dyn Medium>> {
        let medium = self.folder.open(name, size)?;
        if !name.starts_with("journal") {
            return Ok(medium);
        }
        Ok(Box::new(Counted { medium, counts: self.counts.clone() }))
    }

    fn base(&self) -> io::Result<Box<dyn redb::StorageBackend>> {
        self.folder.base()
    }
}

struct Counted {
    medium: Box<dyn Medium>,
    counts: Arc<Counts>,
}

impl Medium for Counted {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        self.medium.read()
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.counts.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.medium.write(at, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.counts.syncs.fetch_add(1, Ordering::Relaxed);
        self.medium.sync()
    }
}

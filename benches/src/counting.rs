//! A directory that counts the syncs of the journal.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tenure_store::{Directory, Storage, StorageFile};

/// A directory and its counters.
pub(crate) struct Counting {
    folder: Directory,
    pub(crate) counts: Arc<Counts>,
}

/// Counters of syncs and bytes.
#[derive(Default)]
pub(crate) struct Counts {
    syncs: AtomicU64,
    bytes: AtomicU64,
}

impl Counts {
    /// Syncs of the journal and bytes written to it so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.syncs.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

impl Counting {
    pub(crate) fn new(folder: Directory) -> Self {
        Self { folder, counts: Arc::default() }
    }
}

impl Storage for Counting {
    fn open(&self, name: &str, size: u64) -> io::Result<Box<dyn StorageFile>> {
        let file = self.folder.open(name, size)?;
        if !name.starts_with("journal") {
            return Ok(file);
        }
        Ok(Box::new(Counted { file, counts: self.counts.clone() }))
    }

    fn base(&self) -> io::Result<Box<dyn redb::StorageBackend>> {
        self.folder.base()
    }
}

struct Counted {
    file: Box<dyn StorageFile>,
    counts: Arc<Counts>,
}

impl StorageFile for Counted {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        self.file.read()
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.counts.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.file.write(at, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.counts.syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync()
    }
}

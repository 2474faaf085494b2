//! A directory whose base fails on demand, as a full device does.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::StorageBackend;
use tenure_store::{Directory, Storage, StorageFile};

/// Which operations on the base fail. Clones share the switches.
#[derive(Clone, Debug, Default)]
pub(crate) struct BaseFaults(Arc<Switches>);

#[derive(Debug, Default)]
struct Switches {
    writes: AtomicBool,
    syncs: AtomicBool,
}

impl BaseFaults {
    /// Whether writes fail from now on.
    pub(crate) fn fail_writes(&self, fail: bool) {
        self.0.writes.store(fail, Ordering::SeqCst);
    }

    /// Whether syncs fail from now on.
    pub(crate) fn fail_syncs(&self, fail: bool) {
        self.0.syncs.store(fail, Ordering::SeqCst);
    }
}

fn check(fails: &AtomicBool) -> io::Result<()> {
    match fails.load(Ordering::SeqCst) {
        true => Err(io::Error::from(io::ErrorKind::StorageFull)),
        false => Ok(()),
    }
}

pub(crate) struct FailingBase {
    directory: Directory,
    faults: BaseFaults,
}

impl FailingBase {
    pub(crate) fn new(directory: &Path, faults: &BaseFaults) -> Self {
        Self { directory: Directory::new(directory), faults: faults.clone() }
    }
}

impl Storage for FailingBase {
    fn open(&self, name: &str, size: u64) -> io::Result<Box<dyn StorageFile>> {
        self.directory.open(name, size)
    }

    fn base(&self) -> io::Result<Box<dyn StorageBackend>> {
        Ok(Box::new(FailingBackend { base: self.directory.base()?, faults: self.faults.clone() }))
    }
}

#[derive(Debug)]
struct FailingBackend {
    base: Box<dyn StorageBackend>,
    faults: BaseFaults,
}

impl StorageBackend for FailingBackend {
    fn len(&self) -> io::Result<u64> {
        self.base.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.base.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.base.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        check(&self.faults.0.syncs)?;
        self.base.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        check(&self.faults.0.writes)?;
        self.base.write(offset, data)
    }
}

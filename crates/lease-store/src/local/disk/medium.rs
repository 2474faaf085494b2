//! The disk as the engine sees it, so that tests and the simulator can put another one there.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::direct::Direct;

/// A place with named files.
pub trait Disk: Send + Sync + 'static {
    /// Opens a file, made and filled with zeros up to `size` bytes if it is shorter.
    fn open(&self, name: &str, size: u64) -> io::Result<Box<dyn Medium>>;

    /// The redb storage for the base.
    fn base(&self) -> io::Result<Box<dyn redb::StorageBackend>>;
}

/// A file of fixed size.
pub trait Medium: Send {
    /// Reads the whole file.
    fn read(&mut self) -> io::Result<Vec<u8>>;

    /// Writes bytes within the file. They may be lost or torn until synced, and so may what lies behind them.
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Returns once all that was written is durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// A folder of the machine's file system.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// A folder that exists.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn file(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(self.0.join(name))
    }
}

impl Disk for Folder {
    fn open(&self, name: &str, size: u64) -> io::Result<Box<dyn Medium>> {
        let file = self.file(name)?;
        let have = file.metadata()?.len();
        if have < size {
            // Written out rather than reserved: overwriting blocks that exist makes each sync cheaper, and a
            // disk without room for the journal shows it now.
            let zeros = vec![0; 1 << 20];
            let mut at = have;
            while at < size {
                let n = (size - at).min(zeros.len() as u64) as usize;
                file.write_all_at(&zeros[..n], at)?;
                at += n as u64;
            }
            file.sync_all()?;
            File::open(&self.0)?.sync_all()?;
        }
        match Direct::open(&self.0.join(name)) {
            Some(direct) => Ok(Box::new(direct)),
            None => Ok(Box::new(file)),
        }
    }

    fn base(&self) -> io::Result<Box<dyn redb::StorageBackend>> {
        let file = self.file("base.redb")?;
        redb::backends::FileBackend::new(file)
            .map(|backend| Box::new(backend) as Box<dyn redb::StorageBackend>)
            .map_err(io::Error::other)
    }
}

impl Medium for File {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.metadata()?.len() as usize];
        self.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

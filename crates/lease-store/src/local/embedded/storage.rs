//! The disk behind the engine, as a trait, so that tests and the simulator can replace it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::direct_file::DirectFile;

/// A set of named files.
pub trait Storage: Send + Sync + 'static {
    /// Opens a file, extended with zeros to `size` bytes.
    fn open(&self, name: &str, size: u64) -> io::Result<Box<dyn StorageFile>>;

    /// Opens the redb backend of the base. It shows what is on the disk: after a failed sync the system may take pages for
    /// written that are not.
    fn base(&self) -> io::Result<Box<dyn redb::StorageBackend>>;
}

/// A file of fixed size.
pub trait StorageFile: Send {
    /// Reads the whole file.
    fn read(&mut self) -> io::Result<Vec<u8>>;

    /// Writes bytes within the file. Until a sync they may be lost or torn, and so may bytes after them.
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes all writes durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// A directory of the file system.
#[derive(Clone, Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// An existing directory.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    fn file(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(self.0.join(name))
    }
}

impl Storage for Directory {
    fn open(&self, name: &str, size: u64) -> io::Result<Box<dyn StorageFile>> {
        let file = self.file(name)?;
        let have = file.metadata()?.len();
        if have < size {
            // Written, not reserved: overwriting existing blocks makes each sync cheaper, and a full disk fails here.
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
        match DirectFile::open(&self.0.join(name)) {
            Some(direct) => Ok(Box::new(direct)),
            None => Ok(Box::new(file)),
        }
    }

    fn base(&self) -> io::Result<Box<dyn redb::StorageBackend>> {
        let file = self.file("base.redb")?;
        // A process that was killed right after a failed sync has left no mark, so pages that are clean are read again.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        redb::backends::FileBackend::new(file)
            .map(|backend| Box::new(backend) as Box<dyn redb::StorageBackend>)
            .map_err(io::Error::other)
    }
}

impl StorageFile for File {
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

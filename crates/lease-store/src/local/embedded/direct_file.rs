//! A file with direct I/O. Data that is synced at once gains nothing from the page cache, and a sync without dirty pages is
//! faster.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use super::storage::StorageFile;

/// The alignment of direct I/O, in the file and in memory.
const BLOCK: usize = 4_096;

/// The largest buffer that is kept for the next write.
const MAX_KEPT: usize = 1 << 20;

/// A file that is read and written in whole blocks only.
pub trait BlockFile: Send {
    /// Its size in bytes.
    fn size(&self) -> io::Result<u64>;

    /// Reads whole blocks.
    fn read_blocks(&self, out: &mut [u8], at: u64) -> io::Result<()>;

    /// Writes whole blocks. Until a sync they may be lost or torn.
    fn write_blocks(&mut self, blocks: &[u8], at: u64) -> io::Result<()>;

    /// Makes all writes durable.
    fn sync_blocks(&mut self) -> io::Result<()>;
}

impl BlockFile for File {
    fn size(&self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn read_blocks(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        self.read_exact_at(out, at)
    }

    fn write_blocks(&mut self, blocks: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(blocks, at)
    }

    fn sync_blocks(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Bytes on a file of whole blocks.
pub struct DirectFile<F = File> {
    file: F,
    /// The bytes of the last, incomplete block, and its offset.
    last: Vec<u8>,
    begins: u64,
    buffer: Vec<u8>,
}

impl DirectFile {
    /// Opens an existing file; `None` if its size or its file system does not allow direct I/O.
    pub(crate) fn open(path: &Path) -> Option<Self> {
        let flags = OFlags::DIRECT.bits().cast_signed();
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).ok()?;
        if !file.size().ok()?.is_multiple_of(BLOCK as u64) {
            return None;
        }
        let mut direct = Self::on(file);
        // Some file systems refuse only here.
        direct.load(0).ok()?;
        direct.last.clear();
        Some(direct)
    }
}

impl<F: BlockFile> DirectFile<F> {
    /// A file whose size is a multiple of 4,096 bytes.
    pub const fn on(file: F) -> Self {
        Self { file, last: Vec::new(), begins: 0, buffer: Vec::new() }
    }

    /// Reads the block at `begins`.
    fn load(&mut self, begins: u64) -> io::Result<()> {
        let block = aligned(&mut self.buffer, BLOCK);
        self.file.read_blocks(block, begins)?;
        self.last.clear();
        self.last.extend_from_slice(block);
        self.begins = begins;
        Ok(())
    }
}

impl<F: BlockFile> StorageFile for DirectFile<F> {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut buffer = Vec::new();
        let whole = aligned(&mut buffer, self.file.size()? as usize);
        self.file.read_blocks(whole, 0)?;
        Ok(whole.to_vec())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let before = (at % BLOCK as u64) as usize;
        let begins = at - before as u64;
        if before > 0 && (self.begins != begins || self.last.len() < before) {
            self.load(begins)?;
        }
        let end = before + bytes.len();
        let blocks = aligned(&mut self.buffer, end.next_multiple_of(BLOCK));
        blocks[..before].copy_from_slice(&self.last[..before]);
        blocks[before..end].copy_from_slice(bytes);
        blocks[end..].fill(0);
        self.file.write_blocks(blocks, begins)?;
        let full = end - end % BLOCK;
        self.begins = begins + full as u64;
        self.last.clear();
        self.last.extend_from_slice(&blocks[full..end]);
        if self.buffer.len() > MAX_KEPT {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_blocks()
    }
}

/// An aligned part of `buffer`.
fn aligned(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() < len + BLOCK {
        buffer.resize(len + BLOCK, 0);
    }
    let start = buffer.as_ptr().align_offset(BLOCK);
    &mut buffer[start..start + len]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of some blocks, all of ones.
    fn file(directory: &tempfile::TempDir) -> DirectFile {
        let path = directory.path().join("file");
        std::fs::write(&path, [1; 4 * BLOCK]).unwrap();
        DirectFile::open(&path).expect("a temporary directory that supports direct I/O")
    }

    #[test]
    fn consecutive_writes_are_read_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = file(&directory);
        let mut wanted = Vec::new();
        for (n, len) in [1, BLOCK - 2, 1, 100, 2 * BLOCK, BLOCK - 101].into_iter().enumerate() {
            let piece = vec![n as u8 + 2; len];
            file.write(wanted.len() as u64, &piece).unwrap();
            file.sync().unwrap();
            wanted.extend(piece);
            assert!(file.read().unwrap().starts_with(&wanted), "after {len} bytes");
        }
        assert_eq!(wanted.len(), 4 * BLOCK - 1);
    }

    #[test]
    fn bytes_before_a_write_are_preserved() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = file(&directory);
        file.write(BLOCK as u64 + 10, &[2; 5]).unwrap();
        file.write(7, &[3; 2]).unwrap();
        file.write(BLOCK as u64 + 20, &[4]).unwrap();
        let read = file.read().unwrap();
        assert_eq!(read[..9], [1, 1, 1, 1, 1, 1, 1, 3, 3]);
        assert_eq!(read[BLOCK..][..21], [[1; 10].as_slice(), &[2; 5], &[0; 5], &[4]].concat());
        assert_eq!(read[2 * BLOCK..], [1; 2 * BLOCK]);
    }

    #[test]
    fn a_file_of_incomplete_blocks_is_not_opened() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        assert!(DirectFile::open(&path).is_none(), "there is no file");
        for len in [0, 1, BLOCK - 1, BLOCK + 1] {
            std::fs::write(&path, vec![1; len]).unwrap();
            assert!(DirectFile::open(&path).is_none(), "{len} bytes");
        }
    }
}

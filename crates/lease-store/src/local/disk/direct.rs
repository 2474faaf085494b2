//! A file that is written past the system's cache. What is synced at once gains nothing by lying there first, and a
//! sync that finds nothing to write out only has to wait for the disk.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use super::medium::Medium;

/// Writes past the cache begin and end at multiples of this, in the file and in memory.
const BLOCK: usize = 4_096;

/// How much memory is kept for the next write.
const MOST: usize = 1 << 20;

/// A file of whole blocks.
pub(crate) struct Direct {
    file: File,
    /// What was written to the block that is not full yet, and where that begins.
    last: Vec<u8>,
    begins: u64,
    buffer: Vec<u8>,
}

impl Direct {
    /// Opens a file that is there; none where its size or its file system does not allow it.
    pub(crate) fn open(path: &Path) -> Option<Self> {
        let flags = OFlags::DIRECT.bits().cast_signed();
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).ok()?;
        if !file.metadata().ok()?.len().is_multiple_of(BLOCK as u64) {
            return None;
        }
        let mut direct = Self { file, last: Vec::new(), begins: 0, buffer: Vec::new() };
        // Some file systems refuse only here.
        direct.load(0).ok()?;
        direct.last.clear();
        Some(direct)
    }

    /// Reads the block that begins at `begins`.
    fn load(&mut self, begins: u64) -> io::Result<()> {
        let block = aligned(&mut self.buffer, BLOCK);
        self.file.read_exact_at(block, begins)?;
        self.last.clear();
        self.last.extend_from_slice(block);
        self.begins = begins;
        Ok(())
    }
}

impl Medium for Direct {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut buffer = Vec::new();
        let whole = aligned(&mut buffer, self.file.metadata()?.len() as usize);
        self.file.read_exact_at(whole, 0)?;
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
        self.file.write_all_at(blocks, begins)?;
        let full = end - end % BLOCK;
        self.begins = begins + full as u64;
        self.last.clear();
        self.last.extend_from_slice(&blocks[full..end]);
        if self.buffer.len() > MOST {
            self.buffer = Vec::new();
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Room in `buffer` that begins at a multiple of a block.
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
    fn file(folder: &tempfile::TempDir) -> Direct {
        let path = folder.path().join("file");
        std::fs::write(&path, [1; 4 * BLOCK]).unwrap();
        Direct::open(&path).expect("a folder for tests that can be written past the cache")
    }

    #[test]
    fn what_is_written_piece_by_piece_is_read_in_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = file(&folder);
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
    fn what_lies_before_is_kept_also_when_it_was_written_by_another() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = file(&folder);
        file.write(BLOCK as u64 + 10, &[2; 5]).unwrap();
        file.write(7, &[3; 2]).unwrap();
        file.write(BLOCK as u64 + 20, &[4]).unwrap();
        let read = file.read().unwrap();
        assert_eq!(read[..9], [1, 1, 1, 1, 1, 1, 1, 3, 3]);
        assert_eq!(read[BLOCK..][..21], [[1; 10].as_slice(), &[2; 5], &[0; 5], &[4]].concat());
        assert_eq!(read[2 * BLOCK..], [1; 2 * BLOCK]);
    }

    #[test]
    fn a_file_that_is_not_of_whole_blocks_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert!(Direct::open(&path).is_none(), "there is no file");
        for len in [0, 1, BLOCK - 1, BLOCK + 1] {
            std::fs::write(&path, vec![1; len]).unwrap();
            assert!(Direct::open(&path).is_none(), "{len} bytes");
        }
    }
}

//! A resource outside of the store: one file per key with the highest generation that wrote.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::history::TokenId;

/// A folder of fenced files.
pub(super) struct Resource(PathBuf);

/// The file, locked: no other process writes until it is dropped, or its process dies.
pub(super) struct Locked {
    file: File,
    mark: (u64, TokenId),
}

impl Resource {
    pub(super) fn new(folder: &Path) -> Self {
        Self(folder.to_owned())
    }

    /// The file of a key, unless another process is writing to it.
    pub(super) fn lock(&self, key: &str) -> Result<Option<Locked>> {
        let path = self.0.join(key.replace('/', "-"));
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = file.with_context(|| format!("open {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let mut bytes = [0; 16];
        let read = file.read_at(&mut bytes, 0)?;
        let number = |at: usize| bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
        let mark = if read == bytes.len() { (number(0), number(8)) } else { (0, 0) };
        Ok(Some(Locked { file, mark }))
    }
}

impl Locked {
    /// Writes if nothing newer wrote before; answers whether.
    pub(super) fn write(&self, generation: u64, token: TokenId) -> Result<bool> {
        let (last, writer) = self.mark;
        if generation < last || (generation == last && token != writer) {
            return Ok(false);
        }
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&generation.to_le_bytes());
        bytes[8..].copy_from_slice(&token.to_le_bytes());
        self.file.write_all_at(&bytes, 0)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_generation_is_kept_out_and_one_writes_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let resource = Resource::new(dir.path());
        let write =
            |generation, token| resource.lock("a/b").unwrap().unwrap().write(generation, token).unwrap();
        assert!(write(5, 1) && write(5, 1) && !write(5, 2) && !write(4, 1) && write(6, 2));
        let held = resource.lock("a/b").unwrap();
        assert!(held.is_some() && resource.lock("a/b").unwrap().is_none());
        assert!(resource.lock("other").unwrap().is_some());
    }
}

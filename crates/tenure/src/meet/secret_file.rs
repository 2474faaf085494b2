//! Secret files of meetings in the data directory, readable by their owner only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::cli::{Failure, Result};

/// Bytes read of a file.
const MAX_BYTES: u64 = 64 * 1024;

/// A secret file.
#[derive(Clone, Debug)]
pub(super) struct SecretFile {
    dir: PathBuf,
    name: &'static str,
}

impl SecretFile {
    pub(super) fn new(dir: &Path, name: &'static str) -> Self {
        Self { dir: dir.to_owned(), name }
    }

    fn path(&self) -> PathBuf {
        self.dir.join(self.name)
    }

    fn failed(&self, why: impl std::fmt::Display) -> Failure {
        Failure::unavailable(format!("meetings: {}: {why}", self.path().display()))
    }

    /// The content; `None` if the file does not exist. A file that others can read is refused.
    pub(super) fn read(&self) -> Result<Option<Vec<u8>>> {
        let file = match File::open(self.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| self.failed(error))?,
        };
        let mode = file.metadata().map_err(|error| self.failed(error))?.permissions().mode();
        if mode & 0o077 != 0 {
            let why = "other users can read this file, so it is not secret";
            return Err(self.failed(why).hint("remove it to have a new one created"));
        }
        let mut content = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut content).map_err(|error| self.failed(error))?;
        Ok(Some(content))
    }

    /// Replaces the content atomically: written to a draft and renamed.
    pub(super) fn write(&self, content: &[u8]) -> Result<()> {
        let draft = self.dir.join(format!(".{}.draft", self.name));
        let write = || -> io::Result<()> {
            fs::create_dir_all(&self.dir)?;
            match fs::remove_file(&draft) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
            file.write_all(content)?;
            file.sync_all()?;
            fs::rename(&draft, self.path())?;
            File::open(&self.dir)?.sync_all()
        };
        write().map_err(|error| self.failed(error))
    }

    /// Removes the file, if it exists.
    pub(super) fn remove(&self) -> Result<()> {
        match fs::remove_file(self.path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed(error)),
            _ => Ok(()),
        }
    }

    /// The content; if the file does not exist, it is created with what `make` returns.
    pub(super) fn read_or_create(&self, make: impl FnOnce() -> Vec<u8>) -> Result<Vec<u8>> {
        if let Some(content) = self.read()? {
            return Ok(content);
        }
        let content = make();
        self.write(&content)?;
        Ok(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_file_is_created_once_with_mode_0600() {
        let dir = tempfile::tempdir().unwrap();
        let file = SecretFile::new(&dir.path().join("a"), "secret");
        assert_eq!(file.read_or_create(|| b"one".to_vec()).unwrap(), b"one");
        assert_eq!(file.read_or_create(|| b"two".to_vec()).unwrap(), b"one");
        let mode = fs::metadata(file.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(file.read().is_err());
    }
}

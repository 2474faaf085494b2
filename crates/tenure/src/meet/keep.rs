//! What meetings keep in the data directory: files that only their owner can touch.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::cli::{Failure, Result};

/// The longest file.
const LONGEST: u64 = 64 * 1024;

/// One file.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    dir: PathBuf,
    name: &'static str,
}

impl Kept {
    pub(super) fn new(dir: &Path, name: &'static str) -> Self {
        Self { dir: dir.to_owned(), name }
    }

    fn path(&self) -> PathBuf {
        self.dir.join(self.name)
    }

    fn failed(&self, why: impl std::fmt::Display) -> Failure {
        Failure::unavailable(format!("meetings: {}: {why}", self.path().display()))
    }

    /// What is in it; nothing if there is none. One that others can read is not secret any more and is not taken.
    pub(super) fn read(&self) -> Result<Option<Vec<u8>>> {
        let file = match File::open(self.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| self.failed(error))?,
        };
        let mode = file.metadata().map_err(|error| self.failed(error))?.permissions().mode();
        if mode & 0o077 != 0 {
            let why = "others can read it, so what is in it is not secret";
            return Err(self.failed(why).hint("remove it, and a new one is made"));
        }
        let mut content = Vec::new();
        file.take(LONGEST).read_to_end(&mut content).map_err(|error| self.failed(error))?;
        Ok(Some(content))
    }

    /// Puts something in. Written aside and renamed: nobody ever reads half of it.
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

    /// What is in it, or what `make` gives, which is in it from then on.
    pub(super) fn or_make(&self, make: impl FnOnce() -> Vec<u8>) -> Result<Vec<u8>> {
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
    fn it_is_made_once_and_only_its_owner_can_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let kept = Kept::new(&dir.path().join("a"), "secret");
        assert_eq!(kept.or_make(|| b"one".to_vec()).unwrap(), b"one");
        assert_eq!(kept.or_make(|| b"two".to_vec()).unwrap(), b"one");
        let mode = fs::metadata(kept.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::set_permissions(kept.path(), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(kept.read().is_err());
    }
}

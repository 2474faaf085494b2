//! The file in the data directory that tells commands on this machine where the server listens.

use std::path::{Path, PathBuf};

use crate::cli::{Failure, Result};

/// Removed when it is dropped.
pub(crate) struct AddressFile(PathBuf);

impl AddressFile {
    pub(crate) fn write(data_dir: &Path, url: &str) -> Result<Self> {
        let (path, fresh) = (data_dir.join("address"), data_dir.join("address.new"));
        // Renamed into place: a reader sees a whole address or no file.
        std::fs::write(&fresh, format!("{url}\n"))
            .and_then(|()| std::fs::rename(&fresh, &path))
            .map_err(|error| Failure::unavailable(format!("cannot write {}: {error}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for AddressFile {
    fn drop(&mut self) {
        // A stale address is harmless: connecting to it fails.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_reader_never_sees_half_an_address() {
        let dir = tempfile::tempdir().unwrap();
        let old = AddressFile::write(dir.path(), "http://127.0.0.1:1").unwrap();
        let mut reader = std::fs::File::open(&old.0).unwrap();
        let new = AddressFile::write(dir.path(), "http://127.0.0.1:2").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "http://127.0.0.1:1\n");
        assert_eq!(std::fs::read_to_string(&new.0).unwrap(), "http://127.0.0.1:2\n");
    }
}

//! The directories of HLS output.

use std::io;
use std::path::{Path, PathBuf};

use tenure_session::SessionId;

/// A file in every directory created here. Directories without it are never removed.
const MARKER: &str = ".tenure";
/// The file name of the playlist.
pub(crate) const PLAYLIST: &str = "index.m3u8";

/// The output directory of a session.
pub(crate) fn of(root: &Path, id: &SessionId) -> PathBuf {
    root.join(id.as_str())
}

/// Creates an empty directory with the marker.
pub(crate) fn create(dir: &Path) -> io::Result<()> {
    remove(dir)?;
    std::fs::create_dir_all(dir)?;
    std::fs::write(dir.join(MARKER), b"")
}

/// Removes a directory that has the marker. A missing directory is not an error.
pub(crate) fn remove(dir: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(dir) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Err(io::Error::other("not a directory")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    if !dir.join(MARKER).exists() {
        return Err(io::Error::other("not an output directory: the marker is missing"));
    }
    // The marker is removed last, so that an interrupted removal can be completed.
    for entry in std::fs::read_dir(dir)?.flatten().filter(|entry| entry.file_name() != MARKER) {
        match entry.file_type()?.is_dir() {
            true => std::fs::remove_dir_all(entry.path())?,
            false => std::fs::remove_file(entry.path())?,
        }
    }
    std::fs::remove_dir_all(dir)
}

/// The sessions with an output directory.
pub(crate) fn all(root: &Path) -> Vec<SessionId> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let marked = entries.filter(|entry| entry.path().join(MARKER).exists());
    marked.filter_map(|entry| SessionId::new(entry.file_name().to_str()?).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_with_the_marker_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let id = SessionId::new("s1").unwrap();
        let dir = of(root.path(), &id);
        create(&dir).unwrap();
        std::fs::write(dir.join("seg-00001.m4s"), b"x").unwrap();
        assert_eq!(all(root.path()), std::slice::from_ref(&id));
        remove(&dir).unwrap();
        assert!(!dir.exists());
        remove(&dir).unwrap();

        let theirs = root.path().join("photos");
        std::fs::create_dir(&theirs).unwrap();
        std::fs::write(theirs.join("cat.jpg"), b"x").unwrap();
        assert!(remove(&theirs).is_err());
        assert!(create(&theirs).is_err());
        assert!(theirs.join("cat.jpg").exists());
        assert_eq!(all(root.path()), []);
    }
}

//! The folders that pictures are written to.

use std::io;
use std::path::{Path, PathBuf};

use session::SessionId;

/// In every folder of ours: what has no such file is not ours to remove.
const MARK: &str = ".tenure";
/// What the playlist of a session is called.
pub(crate) const PLAYLIST: &str = "index.m3u8";

/// The folder of a session.
pub(crate) fn of(root: &Path, id: &SessionId) -> PathBuf {
    root.join(id.as_str())
}

/// Makes an empty folder with our mark.
pub(crate) fn make(folder: &Path) -> io::Result<()> {
    remove(folder)?;
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join(MARK), b"")
}

/// Removes a folder that has our mark; one that is not there is no error.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(folder) {
        Ok(meta) if meta.is_dir() => {}
        Ok(_) => return Err(io::Error::other("there is something else in the place of the folder")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    if !folder.join(MARK).exists() {
        return Err(io::Error::other("the folder is none of ours"));
    }
    // The mark goes last, so that what is interrupted can be finished.
    for entry in std::fs::read_dir(folder)?.flatten().filter(|entry| entry.file_name() != MARK) {
        match entry.file_type()?.is_dir() {
            true => std::fs::remove_dir_all(entry.path())?,
            false => std::fs::remove_file(entry.path())?,
        }
    }
    std::fs::remove_dir_all(folder)
}

/// The sessions that have a folder of ours.
pub(crate) fn all(root: &Path) -> Vec<SessionId> {
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten();
    let marked = entries.filter(|entry| entry.path().join(MARK).exists());
    marked.filter_map(|entry| SessionId::new(entry.file_name().to_str()?).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_ours_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let id = SessionId::new("s1").unwrap();
        let folder = of(root.path(), &id);
        make(&folder).unwrap();
        std::fs::write(folder.join("seg-00001.m4s"), b"x").unwrap();
        assert_eq!(all(root.path()), std::slice::from_ref(&id));
        remove(&folder).unwrap();
        assert!(!folder.exists());
        remove(&folder).unwrap();

        let theirs = root.path().join("photos");
        std::fs::create_dir(&theirs).unwrap();
        std::fs::write(theirs.join("cat.jpg"), b"x").unwrap();
        assert!(remove(&theirs).is_err());
        assert!(make(&theirs).is_err());
        assert!(theirs.join("cat.jpg").exists());
        assert_eq!(all(root.path()), []);
    }
}

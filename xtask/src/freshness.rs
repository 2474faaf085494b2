//! Several clones may share one target directory; tests must run the code of this clone.
//!
//! Cargo names the artifacts of workspace members alike in every clone and compares file times to see
//! whether they are fresh. After a build from clone A, an older file of clone B counts as built, and B's
//! tests would run A's code. So every build here holds a lock, and when the last one came from
//! another root, every file of this one is touched first: only workspace members rebuild.
use std::fs::{self, File};
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result};

use crate::tidy;
use crate::workspace::Workspace;

/// Held while this process builds; other clones wait.
pub(crate) struct Fresh {
    _lock: File,
}

/// Locks the target directory and makes sure that artifacts of other clones are rebuilt.
pub(crate) fn lock_target(workspace: &Workspace) -> Result<Fresh> {
    let target = workspace.target();
    fs::create_dir_all(target).with_context(|| format!("cannot create {}", target.display()))?;
    let lock =
        File::create(target.join("xtask.lock")).context("cannot create the lock of the target directory")?;
    if lock.try_lock().is_err() {
        println!("waiting for another xtask to finish with {}", target.display());
        lock.lock().context("cannot lock the target directory")?;
    }
    let files = tidy::listed(workspace)?;
    claim(target, workspace.root(), &files)?;
    Ok(Fresh { _lock: lock })
}

/// Touches `files` unless `root` was the last to build in `target`.
fn claim(target: &Path, root: &Path, files: &[String]) -> Result<()> {
    let stamp = target.join("xtask.root");
    let name = root.to_string_lossy();
    if fs::read_to_string(&stamp).is_ok_and(|last| last == name) {
        return Ok(());
    }
    let now = crate::clock::wall();
    for file in files {
        touch(&root.join(file), now)?;
    }
    fs::write(&stamp, name.as_bytes()).with_context(|| format!("cannot write {}", stamp.display()))
}

fn touch(path: &Path, now: SystemTime) -> Result<()> {
    if !path.is_file() {
        return Ok(());
    }
    let file = File::options().append(true).open(path);
    file.and_then(|file| file.set_modified(now)).with_context(|| format!("cannot touch {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn another_root_is_touched_and_the_same_root_is_not() {
        let base = std::env::temp_dir().join(format!("xtask-freshness-{}", std::process::id()));
        let files = ["lib.rs".to_owned(), "gone.rs".to_owned()];
        let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        for clone in ["target", "a", "b"] {
            fs::create_dir_all(base.join(clone)).unwrap();
            fs::write(base.join(clone).join("lib.rs"), "").unwrap();
        }
        let touched = |clone: &str| {
            touch(&base.join(clone).join("lib.rs"), old).unwrap();
            claim(&base.join("target"), &base.join(clone), &files).unwrap();
            fs::metadata(base.join(clone).join("lib.rs")).unwrap().modified().unwrap() != old
        };
        assert!(touched("a"), "the first build of a root");
        assert!(!touched("a"), "cargo can be trusted within one root");
        assert!(touched("b"), "a build from another root came between");
        assert!(touched("a"), "and back");
        fs::remove_dir_all(&base).unwrap();
    }
}

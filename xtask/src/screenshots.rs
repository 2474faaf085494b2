//! `cargo xtask screenshots`: the pictures that the browser tests take, into the documentation.
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
use crate::{freshness, step};

/// The largest picture that every clone has to carry.
const MOST: u64 = 200_000;

/// Takes the pictures anew and copies them to `docs/images`.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let _fresh = freshness::hold(workspace)?;
    // Where tests find it as `CARGO_TARGET_TMPDIR`.
    let taken = workspace.target().join("tmp/screenshots");
    if taken.exists() {
        // What an older test took is not to be copied.
        fs::remove_dir_all(&taken).with_context(|| format!("cannot empty {}", taken.display()))?;
    }
    step::command(&mut workspace.cargo(&["test", "--package", "tenure", "--test", "browser", "picture"]))?;
    for picture in copy(&taken, &workspace.root().join("docs/images"))? {
        println!("    {}", picture.display());
    }
    Ok(())
}

/// Copies every PNG; none at all is an error, and so is one that is too large.
fn copy(from: &Path, to: &Path) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    let mut copied = Vec::new();
    for entry in fs::read_dir(from).with_context(|| format!("no pictures in {}", from.display()))? {
        let entry = entry?;
        let picture = entry.path();
        if picture.extension().is_none_or(|extension| extension != "png") {
            continue;
        }
        let size = entry.metadata()?.len();
        if size > MOST {
            bail!("{} has {size} bytes, {MOST} are allowed", picture.display());
        }
        let place = to.join(entry.file_name());
        fs::copy(&picture, &place).with_context(|| format!("cannot write {}", place.display()))?;
        copied.push(place);
    }
    if copied.is_empty() {
        bail!("the tests took no pictures");
    }
    copied.sort();
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_copied_and_nothing_else() {
        let base = std::env::temp_dir().join(format!("xtask-screenshots-{}", std::process::id()));
        let (from, to) = (base.join("from"), base.join("to"));
        fs::create_dir_all(&from).unwrap();
        fs::write(from.join("notes.txt"), "").unwrap();
        assert!(copy(&from, &to).unwrap_err().to_string().contains("no pictures"));
        fs::write(from.join("list.png"), "picture").unwrap();
        assert_eq!(copy(&from, &to).unwrap(), [to.join("list.png")]);
        fs::write(from.join("large.png"), vec![0; MOST as usize + 1]).unwrap();
        assert!(copy(&from, &to).unwrap_err().to_string().contains("large.png"));
        fs::remove_dir_all(&base).unwrap();
    }
}

//! `cargo xtask screenshots`: copies the screenshots of the browser tests into the documentation.
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
use crate::{freshness, step};

/// The largest accepted file, since every clone contains it.
const MOST: u64 = 200_000;

/// Takes new screenshots and copies them to `docs/images`.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let _fresh = freshness::lock_target(workspace)?;
    // Tests know it as `CARGO_TARGET_TMPDIR`.
    let taken = workspace.target().join("tmp/screenshots");
    if taken.exists() {
        // Remove the screenshots of earlier tests.
        fs::remove_dir_all(&taken).with_context(|| format!("cannot empty {}", taken.display()))?;
    }
    step::command(&mut workspace.cargo(&["test", "--package", "tenure", "--test", "browser", "screenshot"]))?;
    for screenshot in copy(&taken, &workspace.root().join("docs/images"))? {
        println!("    {}", screenshot.display());
    }
    Ok(())
}

/// Copies every PNG. Fails without any, or if one is too large.
fn copy(from: &Path, to: &Path) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
    let mut copied = Vec::new();
    for entry in fs::read_dir(from).with_context(|| format!("no screenshots in {}", from.display()))? {
        let entry = entry?;
        let screenshot = entry.path();
        if screenshot.extension().is_none_or(|extension| extension != "png") {
            continue;
        }
        let size = entry.metadata()?.len();
        if size > MOST {
            bail!("{} has {size} bytes, {MOST} are allowed", screenshot.display());
        }
        let place = to.join(entry.file_name());
        fs::copy(&screenshot, &place).with_context(|| format!("cannot write {}", place.display()))?;
        copied.push(place);
    }
    if copied.is_empty() {
        bail!("the tests took no screenshots");
    }
    copied.sort();
    Ok(copied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn screenshots_are_copied_and_nothing_else() {
        let base = std::env::temp_dir().join(format!("xtask-screenshots-{}", std::process::id()));
        let (from, to) = (base.join("from"), base.join("to"));
        fs::create_dir_all(&from).unwrap();
        fs::write(from.join("notes.txt"), "").unwrap();
        assert!(copy(&from, &to).unwrap_err().to_string().contains("no screenshots"));
        fs::write(from.join("list.png"), "screenshot").unwrap();
        assert_eq!(copy(&from, &to).unwrap(), [to.join("list.png")]);
        fs::write(from.join("large.png"), vec![0; MOST as usize + 1]).unwrap();
        assert!(copy(&from, &to).unwrap_err().to_string().contains("large.png"));
        fs::remove_dir_all(&base).unwrap();
    }
}

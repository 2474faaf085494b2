//! The directories of the workspace, and commands in it.
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// A checkout of the workspace and its target directory.
pub(crate) struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// The workspace this xtask was started from.
    pub(crate) fn find() -> Result<Workspace> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest.parent().context("xtask has no parent directory")?.to_path_buf();
        let target = target_dir(std::env::var_os("CARGO_TARGET_DIR"), std::env::var_os("HOME"))
            .context("neither CARGO_TARGET_DIR nor HOME is set, so there is no target directory")?;
        let target = root.join(target);
        Ok(Workspace { root, target })
    }

    /// The directory that holds the workspace manifest.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The target directory.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// A command that runs at the root of the workspace with the shared target directory.
    pub(crate) fn command(&self, program: impl Into<OsString>) -> Command {
        let mut command = Command::new(program.into());
        command.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.target);
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(describes_xtask) {
                command.env_remove(name);
            }
        }
        command
    }

    /// Cargo with `args`.
    pub(crate) fn cargo(&self, args: &[&str]) -> Command {
        let mut command = self.command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(args);
        command
    }
}

/// Variables that `cargo run` sets for xtask. Build scripts that watch them would rebuild their crates.
fn describes_xtask(name: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

fn target_dir(chosen: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let set = |value: Option<OsString>| value.filter(|value| !value.is_empty()).map(PathBuf::from);
    set(chosen).or_else(|| set(home).map(|home| home.join(".cache/tenure/target")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_directory_is_the_chosen_one_or_outside_the_clone() {
        let some = |text: &str| Some(OsString::from(text));
        assert_eq!(target_dir(some("/t"), some("/h")), Some(PathBuf::from("/t")));
        assert_eq!(target_dir(None, some("/h")), Some(PathBuf::from("/h/.cache/tenure/target")));
        assert_eq!(target_dir(some(""), some("/h")), Some(PathBuf::from("/h/.cache/tenure/target")));
        assert_eq!(target_dir(None, None), None);
    }

    #[test]
    fn what_cargo_says_about_xtask_is_not_passed_on() {
        assert!(describes_xtask("CARGO_PKG_NAME"));
        assert!(describes_xtask("CARGO_MANIFEST_DIR"));
        assert!(!describes_xtask("CARGO_TARGET_DIR"));
        assert!(!describes_xtask("CARGO_HOME"));
    }
}

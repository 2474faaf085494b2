//! The files of the repository, read once.
use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};

use crate::tidy::source::Source;
use crate::workspace::Workspace;

/// Every text file that is tracked by git or not ignored, by its path from the root.
pub(super) struct Tree {
    texts: BTreeMap<String, String>,
    sources: BTreeMap<String, Source>,
    test_modules: BTreeSet<String>,
}

/// The paths of all files that are tracked, or new and not ignored.
pub(crate) fn listed(workspace: &Workspace) -> Result<Vec<String>> {
    let mut git = workspace.command("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = git.output().context("cannot start git")?;
    if !output.status.success() {
        bail!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    Ok(names.split_terminator('\0').map(String::from).collect())
}

impl Tree {
    /// Reads the files; binary and deleted files are skipped.
    pub(super) fn read(workspace: &Workspace) -> Result<Tree> {
        let mut texts = BTreeMap::new();
        for path in listed(workspace)? {
            let file = workspace.root().join(&path);
            if !file.is_file() {
                continue;
            }
            let bytes = std::fs::read(&file).with_context(|| format!("cannot read {path}"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                texts.insert(path, text);
            }
        }
        Ok(Tree::new(texts))
    }

    fn new(texts: BTreeMap<String, String>) -> Tree {
        let rust = texts.iter().filter(|(path, _)| path.ends_with(".rs"));
        let sources: BTreeMap<_, _> = rust.map(|(path, text)| (path.clone(), Source::parse(text))).collect();
        let test_modules = sources
            .iter()
            .flat_map(|(path, source)| source.test_modules().into_iter().map(|name| module_path(path, &name)))
            .collect();
        Tree { texts, sources, test_modules }
    }

    /// The files by path.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The Rust files by path.
    pub(super) fn sources(&self) -> impl Iterator<Item = (&str, &Source)> {
        self.sources.iter().map(|(path, source)| (path.as_str(), source))
    }

    /// The Rust file at `path`.
    pub(super) fn source(&self, path: &str) -> Option<&Source> {
        self.sources.get(path)
    }

    /// The file at `path`.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// Whether `path` is a file or a directory with files.
    pub(super) fn has(&self, path: &str) -> bool {
        self.texts.contains_key(path) || self.texts.keys().any(|file| under(file, path))
    }

    /// Whether the whole file is test code: below a `tests` directory, or a module compiled for tests only.
    pub(super) fn is_test(&self, path: &str) -> bool {
        let module = path.strip_suffix(".rs").unwrap_or(path);
        let module = module.strip_suffix("/mod").unwrap_or(module);
        path.split('/').rev().skip(1).any(|part| part == "tests")
            || self.test_modules.iter().any(|test| module == test || under(module, test))
            || self.source(path).is_some_and(Source::is_test)
    }

    /// A tree for tests.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
        Tree::new(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect())
    }
}

/// Whether `path` is below the directory `dir`.
pub(super) fn under(path: &str, dir: &str) -> bool {
    path.strip_prefix(dir.trim_end_matches('/')).is_some_and(|rest| rest.starts_with('/'))
}

/// The path of the module `mod name;` in the file `parent`, without `.rs` or `/mod.rs`.
fn module_path(parent: &str, name: &str) -> String {
    let (dir, file) = parent.rsplit_once('/').unwrap_or(("", parent));
    match file {
        "lib.rs" | "main.rs" | "mod.rs" => format!("{dir}/{name}"),
        file => format!("{dir}/{}/{name}", file.trim_end_matches(".rs")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_files_are_recognized_by_path_and_by_declaration() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "#[cfg(test)]\nmod checks;\nmod real;\n"),
            ("crates/a/src/checks.rs", ""),
            ("crates/a/src/checks/deep.rs", ""),
            ("crates/a/src/real.rs", "#[cfg(test)] mod cases;"),
            ("crates/a/src/real/cases.rs", ""),
            ("crates/a/src/gated.rs", "#![cfg(test)]\nfn f() {}\n"),
            ("crates/a/tests/it/main.rs", ""),
        ]);
        let tests: Vec<&str> =
            tree.sources().map(|(path, _)| path).filter(|path| tree.is_test(path)).collect();
        let expected = [
            "crates/a/src/checks.rs",
            "crates/a/src/checks/deep.rs",
            "crates/a/src/gated.rs",
            "crates/a/src/real/cases.rs",
            "crates/a/tests/it/main.rs",
        ];
        assert_eq!(tests, expected);
    }

    #[test]
    fn a_directory_is_there_when_it_has_files() {
        let tree = Tree::of(&[("docs/errors/X.md", "")]);
        assert!(tree.has("docs/errors") && tree.has("docs/errors/") && tree.has("docs/errors/X.md"));
        assert!(!tree.has("docs/err"));
    }
}

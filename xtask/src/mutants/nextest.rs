//! Tests chosen by name, built once and run often, and what became of each.
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use tenure_breaks::{Break, VARIABLE};

use crate::step::display_command;
use crate::workspace::Workspace;

/// nextest's exit code when tests failed, as opposed to nextest itself.
const TESTS_FAILED: i32 = 100;

/// A test that ran.
#[derive(Debug, PartialEq)]
pub(super) struct Outcome {
    /// Its binary and its path.
    pub(super) test: String,
    pub(super) passed: bool,
}

impl Outcome {
    /// The name of the function.
    pub(super) fn name(&self) -> &str {
        self.test.rsplit([' ', ':']).next().unwrap_or(&self.test)
    }
}

/// Built tests.
pub(super) struct Nextest<'a> {
    workspace: &'a Workspace,
    binaries: PathBuf,
    metadata: PathBuf,
    /// Whether every test is there.
    whole: bool,
}

impl<'a> Nextest<'a> {
    /// Builds the tests of these packages, or of all if none is named, and the programs that they start, with the feature
    /// `breaks`.
    pub(super) fn build(workspace: &'a Workspace, packages: &[&str]) -> Result<Self> {
        let folder = workspace.target().join("mutants");
        fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        let store = |name: &str, args: &[&str]| -> Result<PathBuf> {
            let mut command = workspace.cargo(args);
            let output = command.stderr(Stdio::inherit()).output().context("cannot start cargo")?;
            ensure!(output.status.success(), "`{}` ended with {}", display_command(&command), output.status);
            let path = folder.join(name);
            fs::write(&path, output.stdout).with_context(|| format!("write {}", path.display()))?;
            Ok(path)
        };
        let mut list = vec!["nextest", "list", "--all-features", "--list-type", "binaries-only"];
        list.extend(["--message-format", "json"]);
        match packages.is_empty() {
            true => list.push("--workspace"),
            // The feature is that of the simulator.
            false => ["tenure-sim"].iter().chain(packages).for_each(|name| list.extend(["--package", name])),
        }
        let binaries = store("binaries.json", &list)?;
        let metadata = store("metadata.json", &["metadata", "--format-version", "1", "--all-features"])?;
        Ok(Self { workspace, binaries, metadata, whole: packages.is_empty() })
    }

    /// Runs the tests with these names, on whatever engine or in whatever crate they are, with a break or without.
    pub(super) fn run(&self, names: &BTreeSet<&str>, what: Option<Break>) -> Result<Vec<Outcome>> {
        let mut command =
            self.workspace.cargo(&["nextest", "run", "--profile", "mutants", "--color", "never"]);
        command.arg("--binaries-metadata").arg(&self.binaries);
        command.arg("--cargo-metadata").arg(&self.metadata);
        command.arg("--filterset").arg(filter(names));
        command.env_remove(VARIABLE).envs(what.map(|what| (VARIABLE, what.name())));
        let output = command.output().context("cannot start cargo nextest")?;
        let printed = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() && output.status.code() != Some(TESTS_FAILED) {
            bail!("cargo nextest ended with {}:\n{printed}", output.status);
        }
        let outcomes: Vec<Outcome> = printed.lines().filter_map(outcome).collect();
        let missing = names.iter().find(|name| !outcomes.iter().any(|outcome| outcome.name() == **name));
        match missing {
            Some(name) if self.whole => bail!("the test {name} did not run:\n{printed}"),
            _ => Ok(outcomes),
        }
    }
}

/// Tests whose last part is one of the names.
fn filter(names: &BTreeSet<&str>) -> String {
    let names: Vec<&str> = names.iter().copied().collect();
    format!("test(/(^|::)({})$/)", names.join("|"))
}

/// What a line says about a test that ended; lines about slow tests and summaries say nothing.
fn outcome(line: &str) -> Option<Outcome> {
    let (status, rest) = line.trim_start().split_once(' ')?;
    let passed = match status {
        "PASS" | "LEAK" => true,
        "FAIL" | "TIMEOUT" | "ABORT" | "LEAK-FAIL" => false,
        signal if signal.starts_with("SIG") => false,
        _ => return None,
    };
    let (_, rest) = rest.trim_start().strip_prefix('[')?.split_once(']')?;
    // Newer versions count: `( 3/12)`.
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix('(').and_then(|counted| counted.split_once(')')) {
        Some((_, rest)) => rest.trim_start(),
        None => rest,
    };
    Some(Outcome { test: rest.trim_end().to_owned(), passed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(test: &str, passed: bool) -> Option<Outcome> {
        Some(Outcome { test: test.into(), passed })
    }

    #[test]
    fn a_line_says_what_became_of_a_test() {
        let table = [
            ("        PASS [   0.004s] tenure-lease rules::a_b", ran("tenure-lease rules::a_b", true)),
            (
                "        PASS [   0.004s] ( 1/12) tenure-lease rules::a_b",
                ran("tenure-lease rules::a_b", true),
            ),
            ("        FAIL [   1.250s] (12/12) tenure-store::it x::y", ran("tenure-store::it x::y", false)),
            ("     TIMEOUT [  60.001s] tenure-sim::it chaos::z", ran("tenure-sim::it chaos::z", false)),
            ("     SIGABRT [   0.100s] tenure-sim::it chaos::z", ran("tenure-sim::it chaos::z", false)),
            ("        SLOW [> 60.000s] tenure-sim::it chaos::z", None),
            ("     Summary [   1.300s] 2 tests run: 1 passed, 1 failed", None),
            ("", None),
        ];
        for (line, expected) in &table {
            assert_eq!(outcome(line), *expected, "{line}");
        }
        assert_eq!(outcome(table[2].0).unwrap().name(), "y");
    }

    #[test]
    fn tests_are_chosen_by_the_last_part_of_their_names() {
        assert_eq!(filter(&BTreeSet::from(["b", "a"])), "test(/(^|::)(a|b)$/)");
    }
}

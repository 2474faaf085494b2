//! `cargo xtask tidy`: rules of the repository that the compiler does not check.
//!
//! Every check is a function from the files (and the package graph) to violations. All checks run before
//! the command fails, so that one run shows all violations.
mod ambient;
mod breaks;
mod columns;
mod deploy;
mod engines;
mod forbidden;
mod glossary;
mod growth;
mod invariants;
mod lints;
mod map;
mod markdown;
mod metrics;
mod pages;
mod source;
mod source_mask;
mod tree;
mod walls;

use std::fmt;

use anyhow::{Context, Result, bail};

use crate::metadata::Graph;
use crate::tidy::tree::Tree;
use crate::workspace::Workspace;

pub(crate) use crate::tidy::invariants::{INVARIANTS, Row, rows};
pub(crate) use crate::tidy::tree::listed;

/// A violated rule and its location.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Violation {
    path: String,
    line: usize,
    message: String,
}

impl Violation {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Violation {
        Violation { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Prints every violation as `path:line: message` and fails if there is one.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let violations = check(&Tree::read(workspace)?, &Graph::read(workspace)?);
    for violation in &violations {
        println!("{violation}");
    }
    match violations.len() {
        0 => Ok(()),
        1 => bail!("tidy found 1 violation"),
        count => bail!("tidy found {count} violations"),
    }
}

/// Lowers the recorded sizes of files and functions that shrank. Never raises or adds one.
pub(crate) fn record(workspace: &Workspace) -> Result<()> {
    let tree = Tree::read(workspace)?;
    let text = growth::lowered(&tree);
    let path = workspace.root().join(growth::RATCHET);
    if tree.text(growth::RATCHET) == Some(text.as_str()) {
        println!("{} is up to date", growth::RATCHET);
        return Ok(());
    }
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", growth::RATCHET))?;
    println!("{} lowered", growth::RATCHET);
    Ok(())
}

fn check(tree: &Tree, graph: &Graph) -> Vec<Violation> {
    let mut violations = walls::check(tree, graph);
    violations.extend(ambient::check(tree));
    violations.extend(breaks::check(tree, graph));
    violations.extend(engines::check(tree));
    violations.extend(lints::check(tree, graph));
    violations.extend(map::check(tree, graph));
    violations.extend(invariants::check(tree));
    violations.extend(columns::check(tree));
    violations.extend(glossary::check(tree));
    violations.extend(growth::check(tree));
    violations.extend(forbidden::check(tree));
    violations.extend(pages::check(tree));
    violations.extend(metrics::check(tree));
    violations.extend(deploy::check(tree));
    violations.sort();
    violations.dedup();
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_is_called_and_reported_in_order() {
        let long = format!("fn long() {{\n{}}}\n", "    step();\n".repeat(80));
        let tree = Tree::of(&[
            ("crates/lease/src/lib.rs", "fn f() { std::env::var(\"X\"); }\n"),
            ("crates/lease/src/long.rs", &long),
            ("crates/lease/src/metered.rs", "fn f() { metrics::counter!(\"lease_total\"); }\n"),
            ("deploy/Dockerfile", "FROM rust:1.95\n"),
            ("notes.md", concat!("FIX", "ME\n")),
            ("deploy/alerts.yml", "- alert: Lost\n"),
        ]);
        let graph = Graph::of(&[("lease", "crates/lease", &["tokio"])]);
        let shown: Vec<String> = check(&tree, &graph).iter().map(ToString::to_string).collect();
        let expected = [
            "ARCHITECTURE.md:1: ",
            "crates/lease/Cargo.toml:1: does not take",
            "crates/lease/Cargo.toml:1: lease -> tokio",
            "crates/lease/src/lib.rs:1: ",
            "crates/lease/src/long.rs:1: ",
            "crates/lease/src/metered.rs:1: the counter `lease_total` has no HELP text",
            "crates/lease/src/metered.rs:1: the counter `lease_total` has no row",
            "deploy/Dockerfile:1: ",
            "deploy/alerts.yml:1: ",
            "docs/invariants.md:1: ",
            "notes.md:1: ",
        ];
        assert_eq!(shown.len(), expected.len(), "{shown:#?}");
        for (line, start) in shown.iter().zip(expected) {
            assert!(line.starts_with(start), "{line}");
        }
    }
}

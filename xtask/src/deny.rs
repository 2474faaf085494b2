//! `cargo-deny`: licenses, banned crates and sources always; advisories where their database can be fetched.
use std::path::PathBuf;
use std::process::Output;

use anyhow::{Context, Result, bail};

use crate::step;
use crate::workspace::Workspace;

/// The version that `deny.toml` is written for.
const VERSION: &str = "0.20.2";
/// Checks that need no network.
const OFFLINE: [&str; 3] = ["licenses", "bans", "sources"];

/// The summary of this step.
pub(crate) fn headline() -> String {
    format!("cargo-deny: {}, advisories", OFFLINE.join(", "))
}

/// Fails on a forbidden license, crate or source, and on a known vulnerability.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let program = install(workspace)?;
    let offline = check(workspace, &program, &OFFLINE)?;
    if !offline.status.success() {
        print_report(&offline);
        bail!("cargo-deny found a dependency that deny.toml does not allow");
    }
    let advisories = check(workspace, &program, &["advisories"])?;
    if advisories.status.success() {
        return Ok(());
    }
    if database_is_unreachable(&String::from_utf8_lossy(&advisories.stderr)) {
        println!("    advisories NOT checked: the advisory database cannot be fetched");
        return Ok(());
    }
    print_report(&advisories);
    bail!("cargo-deny found a vulnerable or yanked dependency")
}

fn check(workspace: &Workspace, program: &PathBuf, checks: &[&str]) -> Result<Output> {
    let mut command = workspace.command(program);
    command.args(["--all-features", "--color", "never", "check", "--hide-inclusion-graph"]).args(checks);
    command.output().context("cannot start cargo-deny")
}

/// Whether the check failed because the database is missing, and not because of an advisory.
fn database_is_unreachable(report: &str) -> bool {
    report.contains("failed to fetch advisory database")
        || report.contains("failed to load advisory database")
}

fn print_report(output: &Output) {
    println!("{}", String::from_utf8_lossy(&output.stderr).trim_end());
}

/// Installs cargo-deny in its own directory, once per version.
fn install(workspace: &Workspace) -> Result<PathBuf> {
    let directory = workspace.target().join(format!("cargo-deny-{VERSION}"));
    let program = directory.join("bin/cargo-deny");
    if !program.exists() {
        let mut install = workspace.cargo(&["install", "--quiet", "--locked", "--debug", "cargo-deny"]);
        // The shared target directory would keep its dependencies forever.
        install.args(["--version", VERSION, "--root"]).arg(&directory).env_remove("CARGO_TARGET_DIR");
        step::command(&mut install).context("cannot install cargo-deny")?;
    }
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_database_excuses_the_advisories() {
        assert!(database_is_unreachable("[ERROR] failed to fetch advisory database https://x: no such host"));
        assert!(!database_is_unreachable("error[vulnerability]: a buffer overflow in `some-crate`"));
    }
}

//! Runs the examples: each must succeed within a time limit.
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::clock;
use crate::metadata::{self, Graph};
use crate::workspace::Workspace;

/// How long one example may take.
const BOUND: Duration = Duration::from_secs(60);
/// The package with the examples.
const PACKAGE: &str = "examples";
/// The poll interval of a running example.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Builds every example of the workspace once, then runs each.
pub(crate) fn run_all(workspace: &Workspace) -> Result<()> {
    let graph = Graph::read(workspace)?;
    // Examples of other packages are helpers that tests start with arguments.
    let package = graph.packages.get(PACKAGE).context("the package of examples is missing")?;
    let declared: Vec<&str> = package.examples.values().map(String::as_str).collect();
    if let Some(file) = undeclared(&declared, &sources(&workspace.root().join("examples"))?) {
        bail!("{file} is not an [[example]] of examples/Cargo.toml, so it would not run");
    }
    let built = build(workspace)?;
    for name in package.examples.keys() {
        let program = built.get(name).with_context(|| format!("cargo built no example `{name}`"))?;
        let log = workspace.target().join(format!("example-{name}.log"));
        let begun = clock::start();
        run(workspace.command(program), &log, BOUND).with_context(|| format!("example `{name}`"))?;
        println!("    {name} ran in {:.1} s", begun.elapsed().as_secs_f64());
    }
    Ok(())
}

/// The Rust files directly in `dir`, as paths from the root of the workspace.
fn sources(dir: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".rs") {
            files.push(format!("examples/{name}"));
        }
    }
    files.sort();
    Ok(files)
}

fn undeclared<'a>(declared: &[&str], files: &'a [String]) -> Option<&'a String> {
    files.iter().find(|file| !declared.contains(&file.as_str()))
}

fn build(workspace: &Workspace) -> Result<BTreeMap<String, PathBuf>> {
    let mut cargo = workspace.cargo(&[
        "build",
        "--workspace",
        "--examples",
        "--message-format",
        "json-render-diagnostics",
    ]);
    let output = cargo.stderr(Stdio::inherit()).output().context("cannot start cargo build")?;
    if !output.status.success() {
        bail!("the examples do not build");
    }
    Ok(executables(&String::from_utf8_lossy(&output.stdout)))
}

/// The executables of examples among cargo's build messages.
fn executables(messages: &str) -> BTreeMap<String, PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let examples = messages.filter(|message| metadata::is_example(&message["target"]));
    examples
        .filter_map(|message| {
            Some((message["target"]["name"].as_str()?.to_owned(), message["executable"].as_str()?.into()))
        })
        .collect()
}

/// Runs one example with its output in `log`, and shows the output if it fails or times out.
fn run(mut command: Command, log: &Path, bound: Duration) -> Result<()> {
    let output = File::create(log).with_context(|| format!("cannot create {}", log.display()))?;
    let mut child = command
        .stdin(Stdio::null())
        .stderr(output.try_clone()?)
        .stdout(output)
        .spawn()
        .context("cannot start the example")?;
    let begun = clock::start();
    let problem = loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => break format!("failed with {status}"),
            None if begun.elapsed() < bound => clock::pause(POLL_INTERVAL),
            None => {
                child.kill()?;
                child.wait()?;
                break format!("did not end within {} s", bound.as_secs());
            }
        }
    };
    println!("{}", fs::read_to_string(log).unwrap_or_default().trim_end());
    bail!("{problem}; its output is above and in {}", log.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(name: &str, script: &str, bound: Duration) -> Result<()> {
        let log = std::env::temp_dir().join(format!("xtask-{name}-{}.log", std::process::id()));
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let result = run(command, &log, bound);
        fs::remove_file(log).unwrap();
        result
    }

    #[test]
    fn an_example_that_ends_well_passes() {
        shell("well", "echo fine", BOUND).unwrap();
    }

    #[test]
    fn an_example_that_fails_is_an_error_with_its_status() {
        let error = shell("fails", "echo so far; exit 4", BOUND).unwrap_err().to_string();
        assert!(error.starts_with("failed with exit status: 4"), "{error}");
    }

    #[test]
    fn an_example_that_hangs_is_killed_and_fails() {
        let error = shell("hangs", "echo waiting; exec sleep 600", Duration::from_millis(300))
            .unwrap_err()
            .to_string();
        assert!(error.contains("did not end"), "{error}");
    }

    #[test]
    fn a_file_that_is_no_target_is_found() {
        let files = ["examples/hello.rs".to_owned(), "examples/forgotten.rs".to_owned()];
        assert_eq!(undeclared(&["examples/hello.rs"], &files), Some(&files[1]));
        assert_eq!(undeclared(&["examples/hello.rs"], &files[..1]), None);
    }

    #[test]
    fn executables_of_examples_are_read_from_build_messages() {
        let messages = r#"
            {"reason":"compiler-artifact","target":{"kind":["example"],"name":"hello"},"executable":"/t/hello"}
            {"reason":"compiler-artifact","target":{"kind":["bin"],"name":"tenure"},"executable":"/t/tenure"}
            {"reason":"build-finished","success":true}"#;
        assert_eq!(executables(messages), [("hello".to_owned(), PathBuf::from("/t/hello"))].into());
    }
}

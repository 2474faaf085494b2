//! `cargo xtask test`: everything that must hold before a change lands, in one command.
use std::process::Command;

use anyhow::Result;

use crate::step::{self, Step};
use crate::workspace::Workspace;
use crate::{codegen, deny, deploy, example, features, freshness, luacheck, openapi, sim, tidy, tools};

/// Runs every step in order and prints the summary line.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let _fresh = freshness::lock_target(workspace)?;
    let nextest = tools::on_path("cargo-nextest");
    let mut steps =
        vec![Step { name: "tools", what: tools::headline(), work: Box::new(|| tools::ensure(workspace)) }];
    steps.push(cargo(workspace, "fmt", &["fmt", "--all", "--check"], None));
    let clippy = ["clippy", "--workspace", "--all-targets", "--all-features", "--", "-D", "warnings"];
    steps.push(cargo(workspace, "clippy", &clippy, None));
    steps.push(Step {
        name: "features",
        what: features::headline(),
        work: Box::new(|| features::run(workspace)),
    });
    steps.push(Step {
        name: "tidy",
        what: "walls, lints, map, invariants, growth, terms, documents, metrics, deploy files".into(),
        work: Box::new(|| tidy::run(workspace)),
    });
    steps.push(Step {
        name: "codegen",
        what: "the wire schemas of the console are current".into(),
        work: Box::new(|| codegen::check(workspace)),
    });
    steps.push(Step {
        name: "luacheck",
        what: luacheck::headline(),
        work: Box::new(|| luacheck::run(workspace)),
    });
    steps.push(Step { name: "deny", what: deny::headline(), work: Box::new(|| deny::run(workspace)) });
    steps.push(Step { name: "deploy", what: deploy::headline(), work: Box::new(|| deploy::run(workspace)) });
    steps.extend(helpers(nextest).map(|build| cargo(workspace, "helpers", build, None)));
    steps.push(cargo(workspace, "tests", tests(nextest), None));
    steps.push(Step { name: "sim", what: sim::headline(), work: Box::new(|| sim::budget(workspace)) });
    steps.push(cargo(workspace, "doctests", &["test", "--workspace", "--doc", "--all-features"], None));
    let rustdoc = ["doc", "--workspace", "--no-deps"];
    steps.push(cargo(workspace, "rustdoc", &rustdoc, Some(("RUSTDOCFLAGS", "-D warnings"))));
    steps.push(Step {
        name: "examples",
        what: "build them all, run each for at most 60 s".into(),
        work: Box::new(|| example::run_all(workspace)),
    });
    steps.push(Step {
        name: "openapi",
        what: "schemathesis against the running server".into(),
        work: Box::new(|| openapi::check(workspace)),
    });
    let summary = step::run(steps)?;
    println!("xtask test: {summary}");
    Ok(())
}

/// nextest if it is installed, because it kills tests that hang; otherwise `cargo test`.
fn tests(nextest: bool) -> &'static [&'static str] {
    if nextest {
        &["nextest", "run", "--workspace", "--all-features", "--no-tests=pass"]
    } else {
        &["test", "--workspace", "--all-features", "--no-fail-fast", "--lib", "--bins", "--tests"]
    }
}

/// Tests start binaries and examples by name. nextest builds them with the tests; `cargo test` with
/// `--tests` builds no examples. Features are those of the tests, so that dependencies are built once.
fn helpers(nextest: bool) -> Option<&'static [&'static str]> {
    (!nextest).then_some(&["build", "--workspace", "--all-features", "--bins", "--examples"])
}

fn cargo<'a>(workspace: &Workspace, name: &'a str, args: &[&str], env: Option<(&str, &str)>) -> Step<'a> {
    let mut command: Command = workspace.cargo(args);
    command.envs(env);
    let prefix = env.map(|(key, value)| format!("{key}='{value}' ")).unwrap_or_default();
    let what = prefix + &step::display_command(&command);
    Step { name, what, work: Box::new(move || step::command(&mut command)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_cargos_own_runner_needs_the_helpers_built_before() {
        assert_eq!(helpers(true), None);
        let build = helpers(false).unwrap();
        for word in ["--bins", "--examples"] {
            assert!(build.contains(&word), "{build:?}");
        }
        assert!(!tests(false).contains(&"--examples"), "that would build them as tests");
    }

    #[test]
    fn helpers_are_built_as_their_tests_are() {
        for word in ["--workspace", "--all-features"] {
            assert!(helpers(false).unwrap().contains(&word) && tests(false).contains(&word), "{word}");
        }
        let profile = |words: &[&str]| words.iter().any(|word| matches!(*word, "--release" | "--profile"));
        assert!(!profile(helpers(false).unwrap()) && !profile(tests(false)));
    }
}

//! Developer commands. Continuous integration runs only `cargo xtask test`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool speaks on its standard streams"
)]

mod chaos;
mod clock;
mod codegen;
mod deny;
mod deploy;
mod example;
mod features;
mod freshness;
mod luacheck;
mod metadata;
mod mutants;
mod openapi;
mod screenshots;
mod sim;
mod soak;
mod step;
mod suite;
mod tidy;
mod tools;
mod workspace;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::workspace::Workspace;

const HELP: &str = "\
Developer commands of the Tenure workspace

Usage: cargo xtask COMMAND

Commands:
  test             install what the tests need, then fmt, clippy, features, tidy, luacheck, deny, deploy, tests, sim, doc tests, rustdoc, examples, openapi
  tidy             check walls, lints, map, invariants, metrics, deploy files, file sizes, line lengths and terms
  codegen          write the web pages' copy of the wire schemas, generated from proto/
  deny             check licenses, bans, sources and advisories of all dependencies with cargo-deny
  features         check that the store compiles with each engine feature alone, and the client
  luacheck         check the Redis scripts as they are sent to the server
  deploy           check alerts, dashboard and unit with promtool and systemd-analyze
  openapi          start a server and hold it to its own /openapi.json with schemathesis
  tidy --record    lower the numbers in xtask/ratchet.txt to what the files have shrunk to
  bench [ARGS...]  run the load generators in release mode with ARGS
  sim [ARGS...]    run seeds of the simulator (--seeds N, --seconds N, --from S, --seed S), or --mutants
  mutants [ID...]  run the tests of docs/invariants.md with each known break, each of which must turn one red: I-04, RenewLate, --package NAME
  chaos [ARGS...]  run real holders and servers under faults and judge them: --minutes N, --seed S, --engine NAME
  soak media       let bots join and leave a meeting and check that nothing leaks: --minutes N, --bots N
  screenshots      take the pictures of the console in docs/images anew, in a real browser
  help             print this text

Builds go to CARGO_TARGET_DIR, or to ~/.cache/tenure/target where that is unset.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String]) -> Result<()> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test"] => suite::run(&Workspace::find()?),
        ["tidy"] => tidy::run(&Workspace::find()?),
        ["codegen"] => codegen::write(&Workspace::find()?),
        ["deny"] => deny::run(&Workspace::find()?),
        ["features"] => features::run(&Workspace::find()?),
        ["luacheck"] => luacheck::run(&Workspace::find()?),
        ["deploy"] => deploy::run(&Workspace::find()?),
        ["openapi"] => openapi::check(&Workspace::find()?),
        ["tidy", "--record"] => tidy::record(&Workspace::find()?),
        ["screenshots"] => screenshots::run(&Workspace::find()?),
        ["sim", rest @ ..] => sim::run(&Workspace::find()?, rest),
        ["mutants", rest @ ..] => {
            let workspace = Workspace::find()?;
            let _fresh = freshness::lock_target(&workspace)?;
            mutants::run(&workspace, rest)
        }
        ["bench", rest @ ..] => {
            let workspace = Workspace::find()?;
            let _fresh = freshness::lock_target(&workspace)?;
            tools::ensure_peers(&workspace)?;
            // The benchmarks start the server in the same directory.
            let build = ["build", "--release", "--package", "benches", "--package", "tenure", "--bins"];
            step::command(&mut workspace.cargo(&build))?;
            step::command(workspace.command(workspace.target().join("release/benches")).args(rest))
        }
        ["chaos", rest @ ..] => {
            let workspace = Workspace::find()?;
            let _fresh = freshness::lock_target(&workspace)?;
            chaos::run(&workspace, rest)
        }
        ["soak", rest @ ..] => {
            let workspace = Workspace::find()?;
            let _fresh = freshness::lock_target(&workspace)?;
            soak::run(&workspace, rest)
        }
        ["help" | "--help" | "-h"] | [] => {
            println!("{HELP}");
            Ok(())
        }
        unknown => bail!("unknown command `{}`; see `cargo xtask help`", unknown.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_commands_and_arguments_are_errors() {
        for words in [vec!["tset"], vec!["test", "--fast"], vec!["tidy", "--fix"]] {
            let args: Vec<String> = words.into_iter().map(String::from).collect();
            let error = run(&args).unwrap_err().to_string();
            assert!(error.contains("cargo xtask help"), "{error}");
        }
    }
}

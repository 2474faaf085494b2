//! The command line: one file per command, tables for people, JSON for programs.

mod bench;
mod completions;
mod config;
mod doctor;
mod failure;
mod human;
mod lease;
mod login;
mod poll;
mod remote;
mod run;
mod screen;
mod table;
mod target;
mod view;

use clap::{Parser, Subcommand};

pub(crate) use failure::{Failure, Result, exit};
pub(crate) use screen::{Output, Screen};
pub(crate) use target::{Place, Target, connect};

use crate::sessions::Role;
use crate::{meet, up, watchdog};

/// Decides who owns what, until when, and proves it.
#[derive(Parser, Debug)]
#[command(name = "tenure", version, after_help = AFTER)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const AFTER: &str = "Without a command, tenure does what `tenure up` does.

Exit codes: 0 done, 2 wrong usage, 69 the server or store does not answer, 70 internal, 75 not now (busy),
76 lost, 77 not allowed. `tenure run` ends with the code of its command.";

/// What to do.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run everything on this machine
    Up(up::Args),
    /// Serve the control lease and its device alone
    Control(up::Args),
    /// Serve the door of the TV sessions alone: it takes wishes whether or not a worker is there
    SessionApi(up::Args),
    /// Run the orchestrator of the TV sessions alone, on the store of the door
    SessionWorker(up::Args),
    /// Serve the door of the meetings alone: REST, the registry and the authority
    Gc(up::Args),
    /// Run a meeting controller alone, on the store of the door
    Mc(up::Args),
    /// Run a media handler alone, on the store of the door
    Mh(up::Args),
    /// Look at leases, take them and give them back
    #[command(subcommand)]
    Lease(lease::Command),
    /// Run a command only while a key is held
    Run(run::Args),
    /// Poll targets, sharing them with every other node on the store; or look at them and change them
    Poll(poll::Args),
    /// Check the engine's profile and the clock
    Doctor(doctor::Args),
    /// Measure engines: acquire + release, and renew
    Bench(bench::Args),
    /// Print the effective configuration, secrets hidden
    Config(config::Args),
    /// Print a fresh address to log in to the console
    Login(login::Args),
    /// Print completions for a shell
    Completions(completions::Args),
    #[command(name = "__watchdog", hide = true)]
    Watchdog(watchdog::Args),
}

impl Cli {
    /// Does it, and answers with the exit code.
    pub(crate) async fn run(self, screen: &Screen) -> Result<u8> {
        match self.command.unwrap_or_else(|| Command::Up(up::Args::default())) {
            Command::Up(args) => up::run(args).await,
            Command::Control(args) => up::run(args.alone("control")).await,
            Command::SessionApi(args) => up::run(args.session(Role::Api)).await,
            Command::SessionWorker(args) => up::run(args.session(Role::Worker)).await,
            Command::Gc(args) => up::run(args.meeting(meet::Role::Gc)).await,
            Command::Mc(args) => up::run(args.meeting(meet::Role::Mc)).await,
            Command::Mh(args) => up::run(args.meeting(meet::Role::Mh)).await,
            Command::Lease(command) => lease::run(command, screen).await,
            Command::Run(args) => run::run(args, screen).await,
            Command::Poll(args) => poll::run(args, screen).await,
            Command::Doctor(args) => doctor::run(args, screen).await,
            Command::Bench(args) => bench::run(args, screen).await,
            Command::Config(args) => config::run(args, screen).await,
            Command::Login(args) => login::run(args, screen).await,
            Command::Completions(args) => completions::run(args, screen),
            Command::Watchdog(_) => Err(Failure::internal("the watchdog runs without a runtime")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_token_that_begins_with_a_dash_is_taken_as_it_was_printed() {
        let token = "-g4GVgx32IXgz4bkxbt_3A";
        let commands = [
            vec!["tenure", "lease", "acquire", "k", "--token", token],
            vec!["tenure", "lease", "renew", "k", "--token", token, "--generation", "7"],
            vec!["tenure", "lease", "release", "k", "--token", token],
            vec!["tenure", "lease", "transfer", "k", "--token", token, "--generation", "7", "--to", "h"],
            vec!["tenure", "lease", "ls", "--api-token", token],
        ];
        for command in commands {
            assert!(Cli::try_parse_from(&command).is_ok(), "{command:?}");
        }
    }
}

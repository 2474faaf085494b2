//! The command line: one file per command, tables for people, JSON for programs.

mod api;
mod bench;
mod cluster;
mod completions;
mod config;
mod doctor;
mod failure;
mod human;
mod lease;
mod login;
mod meet;
mod poll;
mod remote;
mod run;
mod screen;
mod secrets;
mod table;
mod target;
mod view;

use clap::{Parser, Subcommand};

pub(crate) use failure::{Failure, Result, describe_error, exit};
pub(crate) use screen::{Output, Screen};
pub(crate) use target::{StoreLocation, Target, connect};

use crate::services::Roles;
use crate::{sessions, up, watchdog};

/// Exclusive ownership for distributed systems: leases, fencing tokens and services on top of them
#[derive(Parser, Debug)]
#[command(name = "tenure", version, after_help = AFTER)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const AFTER: &str = "Without a command, tenure runs `tenure up`.

Exit codes: 0 success, 1 check failed, 2 invalid usage, 69 server or store unavailable, 70 internal error,
75 busy, 76 lease lost, 77 permission denied. `tenure run` exits with the code of its command.";

/// The commands.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run the server with all services
    Up(up::Args),
    /// Run only the control service
    Control(up::Args),
    /// Run only the TV session API
    SessionApi(up::Args),
    /// Run only the TV session orchestrator, on the same store as the session API
    SessionWorker(up::Args),
    /// Run only the global controller of meetings: REST API, registry and token authority
    Gc(up::Args),
    /// Run only a meeting controller, on the same store as the global controller
    Mc(up::Args),
    /// Run only a media handler, on the same store as the global controller
    Mh(up::Args),
    /// Run a whole cluster of meetings on this machine, to try it: a global controller, controllers and handlers
    Cluster(cluster::Args),
    /// List, inspect, move and end meetings, drain their controllers, and join with bots
    #[command(subcommand)]
    Meet(meet::Command),
    /// Inspect, acquire, renew and release leases
    #[command(subcommand)]
    Lease(lease::Command),
    /// Run a command only while holding a lease
    Run(run::Args),
    /// Run a polling node, or manage polling targets
    Poll(poll::Args),
    /// Check the store and the clock
    Doctor(doctor::Args),
    /// Benchmark stores: acquire and release, and renew
    Bench(bench::Args),
    /// Print the effective configuration, with secrets hidden
    Config(config::Args),
    /// Print the secrets that the nodes of an installation share
    #[command(subcommand)]
    Secrets(secrets::Command),
    /// Print a new sign-in link for the console
    Login(login::Args),
    /// Print shell completions
    Completions(completions::Args),
    #[command(name = "__watchdog", hide = true)]
    Watchdog(watchdog::Args),
}

impl Cli {
    /// Runs the command and returns the exit code.
    pub(crate) async fn run(self, screen: &Screen) -> Result<u8> {
        match self.command.unwrap_or_else(|| Command::Up(up::Args::default())) {
            Command::Up(args) => up::run(args).await,
            Command::Control(args) => up::run(args.only("control", Roles::default())).await,
            Command::SessionApi(args) => run_sessions(args, sessions::Role::Api).await,
            Command::SessionWorker(args) => run_sessions(args, sessions::Role::Worker).await,
            Command::Gc(args) => run_meet(args, crate::meet::Role::Gc).await,
            Command::Mc(args) => run_meet(args, crate::meet::Role::Mc).await,
            Command::Mh(args) => run_meet(args, crate::meet::Role::Mh).await,
            Command::Cluster(args) => cluster::run(args, screen).await,
            Command::Meet(command) => meet::run(command, screen).await,
            Command::Secrets(command) => secrets::run(command, screen),
            Command::Lease(command) => lease::run(command, screen).await,
            Command::Run(args) => run::run(args, screen).await,
            Command::Poll(args) => poll::run(args, screen).await,
            Command::Doctor(args) => doctor::run(args, screen).await,
            Command::Bench(args) => bench::run(args, screen).await,
            Command::Config(args) => config::run(args, screen).await,
            Command::Login(args) => login::run(args, screen).await,
            Command::Completions(args) => completions::run(args, screen),
            Command::Watchdog(_) => Err(Failure::internal("the watchdog must run without a runtime")),
        }
    }
}

async fn run_sessions(args: up::Args, role: sessions::Role) -> Result<u8> {
    up::run(args.only("sessions", Roles { sessions: role, ..Roles::default() })).await
}

async fn run_meet(args: up::Args, role: crate::meet::Role) -> Result<u8> {
    up::run(args.only("meet", Roles { meet: role, ..Roles::default() })).await
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
    fn a_token_that_begins_with_a_dash_is_accepted() {
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

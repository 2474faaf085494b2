//! `tenure poll`: a polling node, and the targets of a running server.

mod nodes;
mod targets;

use clap::Subcommand;

use super::{Result, Screen};
use crate::poll::Role;
use crate::services::Roles;
use crate::up;

/// The path of the polling API.
const PATH: &str = "/poll/v1";

/// Without a subcommand, runs a polling node that shares the targets with all other nodes on the store
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[group(id = "poll")]
pub(crate) struct Args {
    #[command(flatten)]
    up: up::Args,
    #[command(subcommand)]
    command: Option<Command>,
}

/// The subcommands of `tenure poll`.
#[derive(Subcommand, Debug)]
enum Command {
    /// List, add, pause, resume, import and remove targets
    #[command(subcommand)]
    Targets(targets::Command),
    /// List nodes and the number of their targets
    Nodes(nodes::Args),
}

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    match args.command {
        None => {
            let roles = Roles { poll: Role::Node, ..Roles::default() };
            up::run(args.up.only("poll", roles)).await
        }
        Some(Command::Targets(command)) => targets::run(command, screen).await,
        Some(Command::Nodes(args)) => nodes::run(args, screen).await,
    }
}

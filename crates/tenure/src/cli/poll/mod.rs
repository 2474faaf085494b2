//! `tenure poll`: a node by itself, and the targets of a running server.

mod api;
mod nodes;
mod targets;

use clap::Subcommand;
use service::config::Place;

use super::{Result, Screen};
use crate::up;

/// Without a command: poll, and serve the interface of polling on a port of its own.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
#[group(id = "poll")]
pub(crate) struct Args {
    #[command(flatten)]
    up: up::Args,
    #[command(subcommand)]
    command: Option<Command>,
}

/// What to do with targets.
#[derive(Subcommand, Debug)]
enum Command {
    /// Look at targets, add, pause, resume, import and remove them
    #[command(subcommand)]
    Targets(targets::Command),
    /// Show who lives and who polls what
    Nodes(nodes::Args),
}

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    match args.command {
        None => alone(args.up).await,
        Some(Command::Targets(command)) => targets::run(command, screen).await,
        Some(Command::Nodes(args)) => nodes::run(args, screen).await,
    }
}

/// A node by itself: as many as one likes, so the port is any free one unless it was chosen.
async fn alone(args: up::Args) -> Result<u8> {
    let mut config = args.load()?;
    let chosen =
        config.entries().iter().any(|entry| entry.name == "listen" && entry.source != Place::Default);
    if !chosen {
        config.settings.listen.set_port(0);
    }
    config.settings.only = vec!["poll".to_owned()];
    up::serve(config, up::Roles::default(), None).await
}

//! `tenure meet`: meetings, their nodes, and orders to controllers.

mod bot;
mod drain;
mod end;
mod ls;
mod move_to;
mod moves;
mod nodes;
mod show;

use clap::Subcommand;

use super::{Result, Screen};

/// The path of the API for operators. Its commands need a token with `meet:admin`.
const PATH: &str = "/api/v1/admin";

/// The commands of `tenure meet`.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Join a meeting with people that send a moving test picture and a tone
    Bot(bot::Args),
    /// List running meetings: owner, phase, people, media handlers
    Ls(ls::Args),
    /// List meeting controllers and media handlers: health, load, zone, version; and drains
    Nodes(nodes::Args),
    /// Show a meeting and where it runs
    Show(show::Args),
    /// List the last 50 moves and failovers with their durations
    Moves(moves::Args),
    /// Move a meeting to another controller; its participants stay connected
    Move(move_to::Args),
    /// Move all meetings of a controller away; its process ends when none is left
    Drain(drain::Args),
    /// Cancel the drain of a controller while it has meetings
    Undrain(drain::UndrainArgs),
    /// End a meeting for all participants
    End(end::Args),
}

pub(crate) async fn run(command: Command, screen: &Screen) -> Result<u8> {
    match command {
        Command::Bot(args) => bot::run(args, screen).await,
        Command::Ls(args) => ls::run(args, screen).await,
        Command::Nodes(args) => nodes::run(args, screen).await,
        Command::Show(args) => show::run(args, screen).await,
        Command::Moves(args) => moves::run(args, screen).await,
        Command::Move(args) => move_to::run(args, screen).await,
        Command::Drain(args) => drain::run(args, screen).await,
        Command::Undrain(args) => drain::undrain(args, screen).await,
        Command::End(args) => end::run(args, screen).await,
    }
}

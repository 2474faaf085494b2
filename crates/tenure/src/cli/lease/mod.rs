//! `tenure lease`: the verbs of the kernel, one file each.

mod acquire;
mod get;
mod history;
mod ls;
mod release;
mod renew;
mod revoke;
mod transfer;
mod watch;

use clap::Subcommand;
use lease::{Generation, Holder, Key, Prefix, Token, Ttl};

use super::{Failure, Result, Screen, human};

pub(crate) use acquire::default_holder;

/// What to do with leases.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List the keys that are not free
    Ls(ls::Args),
    /// Show one key
    Get(get::Args),
    /// Show who held a key, and why each reign ended
    History(history::Args),
    /// Follow changes as they happen
    Watch(watch::Args),
    /// Take a key; prints the token that proves it
    Acquire(acquire::Args),
    /// Prolong a reign
    Renew(renew::Args),
    /// Give a key back
    Release(release::Args),
    /// Hand a key to somebody who waits for it
    Transfer(transfer::Args),
    /// End a reign by force, whoever holds it
    Revoke(revoke::Args),
}

pub(crate) async fn run(command: Command, screen: &Screen) -> Result<u8> {
    match command {
        Command::Ls(args) => ls::run(args, screen).await,
        Command::Get(args) => get::run(args, screen).await,
        Command::History(args) => history::run(args, screen).await,
        Command::Watch(args) => watch::run(args, screen).await,
        Command::Acquire(args) => acquire::run(args, screen).await,
        Command::Renew(args) => renew::run(args, screen).await,
        Command::Release(args) => release::run(args, screen).await,
        Command::Transfer(args) => transfer::run(args, screen).await,
        Command::Revoke(args) => revoke::run(args, screen).await,
    }
}

/// Readers of arguments: what the kernel refuses is wrong usage.
pub(crate) fn key(text: &str) -> Result<Key, String> {
    Key::new(text).map_err(|error| error.to_string())
}

pub(crate) fn prefix(text: &str) -> Result<Prefix, String> {
    Prefix::new(text).map_err(|error| error.to_string())
}

pub(crate) fn holder(text: &str) -> Result<Holder, String> {
    Holder::new(text).map_err(|error| error.to_string())
}

pub(crate) fn token(text: &str) -> Result<Token, String> {
    Token::parse(text).map_err(|error| error.to_string())
}

pub(crate) fn generation(text: &str) -> Result<Generation, String> {
    Generation::parse(text).map_err(|error| error.to_string())
}

pub(crate) fn ttl(text: &str) -> Result<Ttl, String> {
    let time = human::parse_duration(text)?;
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Ttl::from_millis(millis).map_err(|error| error.to_string())
}

/// The caller does not hold what it wants to act on.
fn not_held(key: &Key) -> Failure {
    Failure::new(super::exit::LOST, "NOT_HELD", format!("{key} is not held with this token and generation"))
        .hint(format!("see who does: tenure lease get {key}"))
}

//! `tenure lease`: one file per operation.

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
use tenure_lease::{Generation, Holder, Key, Prefix, Token, Ttl};

use super::{Failure, Result, Screen, human};

pub(crate) use acquire::default_holder;

/// The commands of `tenure lease`.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List the keys that are not free
    Ls(ls::Args),
    /// Show a key
    Get(get::Args),
    /// Show the past holders of a key, and why each reign ended
    History(history::Args),
    /// Watch changes
    Watch(watch::Args),
    /// Acquire a key and print the token of the lease
    Acquire(acquire::Args),
    /// Renew a lease
    Renew(renew::Args),
    /// Release a lease
    Release(release::Args),
    /// Transfer a lease to a waiting holder
    Transfer(transfer::Args),
    /// Revoke a lease, regardless of its holder
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

/// Argument parsers: invalid values are usage errors.
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

/// The caller does not hold the lease.
fn not_held(key: &Key) -> Failure {
    Failure::new(super::exit::LOST, "NOT_HELD", format!("{key} is not held with this token and generation"))
        .hint(format!("show its holder: tenure lease get {key}"))
}

//! `tenure lease release`.

use serde::Serialize;
use tenure_lease::{Holder, Key, Release, Released, Token};

use crate::cli::{Result, Screen, Target, connect, exit};

/// The arguments of `tenure lease release`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Key to release
    #[arg(value_parser = super::key)]
    key: Key,
    /// Token of the lease
    #[arg(long, value_parser = super::token, allow_hyphen_values = true)]
    token: Token,
    /// Successor: granted at once if it is waiting, otherwise reserved for two seconds
    #[arg(long, value_name = "HOLDER", value_parser = super::holder)]
    to: Option<Holder>,
    #[command(flatten)]
    target: Target,
}

#[derive(Serialize)]
struct ReleasedView {
    outcome: &'static str,
}

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let Args { key, token, to, target } = args;
    let store = connect(&target).await?;
    let answer = store.release(Release { to, ..Release::new(key.clone(), token) }).await?;
    let (outcome, code) = match answer {
        Released::Released => ("released", exit::DONE),
        Released::NotHeld => ("not_held", exit::LOST),
    };
    if screen.is_json() {
        screen.json(&ReleasedView { outcome })?;
        return Ok(code);
    }
    match answer {
        Released::Released => screen.line(format!("released {key}"))?,
        Released::NotHeld => return Err(super::not_held(&key)),
    }
    Ok(code)
}

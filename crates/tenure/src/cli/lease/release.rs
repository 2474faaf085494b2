//! `tenure lease release`.

use lease::{Holder, Key, Release, Released, Token};
use serde::Serialize;

use crate::cli::{Result, Screen, Target, connect, exit};

/// Which reign.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The key
    #[arg(value_parser = super::key)]
    key: Key,
    /// The secret of the reign
    #[arg(long, value_parser = super::token, allow_hyphen_values = true)]
    token: Token,
    /// Who should have it next: at once if it waits, else reserved for two seconds
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
        Released::Released => screen.line(format!("{key} is given back"))?,
        Released::NotHeld => return Err(super::not_held(&key)),
    }
    Ok(code)
}

//! `tenure config`: the effective configuration, each value with its source, secrets hidden.

use super::{Result, Screen, exit};
use crate::up;

/// What to print: the settings that `tenure up` with the same flags would use.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    up: up::Args,
}

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    screen.line(args.up.load()?.effective().trim_end())?;
    Ok(exit::DONE)
}

//! `tenure meet end`: ends a meeting for all participants.

use reqwest::Method;

use super::PATH;
use crate::cli::api::{Api, segment};
use crate::cli::target::Server;
use crate::cli::{Failure, Result, Screen, exit};

/// The arguments of `tenure meet end`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Id of the meeting
    id: String,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    server: Server,
}

pub(super) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let question = format!("End {} for all participants?", args.id);
    if !args.yes && screen.is_interactive() && !screen.confirm(&question)? {
        return Err(Failure::new(exit::FAILED, "CANCELLED", "nothing was ended"));
    }
    let path = format!("/meetings/{}/end", segment(&args.id));
    let answer = Api::open(&args.server, PATH)?.call(Method::POST, &path, None).await?;
    if screen.is_json() {
        screen.json(&answer)?;
        return Ok(exit::DONE);
    }
    let running = if answer["running"] == true { "ended" } else { "was not running; it is closed" };
    screen.line(format!("{} {running}", args.id))?;
    Ok(exit::DONE)
}

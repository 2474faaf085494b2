//! `tenure meet drain` and `undrain`: moves the meetings of a controller away, or keeps the rest.

use std::time::Duration;

use clap::ValueEnum;
use reqwest::Method;
use serde_json::{Map, Value};

use super::PATH;
use crate::cli::api::{Api, segment};
use crate::cli::target::Server;
use crate::cli::{Result, Screen, exit, human};

/// The arguments of `tenure meet drain`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Id of the controller
    mc: String,
    /// Why, for the log and the record of the drain
    #[arg(long)]
    reason: Option<Reason>,
    /// How long it may take; what is left then is closed [default: drain_deadline_ms of the controller]
    #[arg(long, value_name = "TIME", value_parser = human::parse_duration)]
    deadline: Option<Duration>,
    #[command(flatten)]
    server: Server,
}

/// The arguments of `tenure meet undrain`.
#[derive(clap::Args, Debug)]
pub(crate) struct UndrainArgs {
    /// Id of the controller
    mc: String,
    #[command(flatten)]
    server: Server,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Reason {
    Maintenance,
    ScaleDown,
    Unhealthy,
    VersionUpgrade,
}

impl Reason {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Maintenance => "maintenance",
            Self::ScaleDown => "scale_down",
            Self::Unhealthy => "unhealthy",
            Self::VersionUpgrade => "version_upgrade",
        }
    }
}

pub(super) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let mut body = Map::new();
    if let Some(reason) = args.reason {
        body.insert("reason".to_owned(), reason.as_str().into());
    }
    if let Some(deadline) = args.deadline {
        body.insert("deadline_ms".to_owned(), (deadline.as_millis() as u64).into());
    }
    let answer = order(&args.server, &args.mc, "drain", Some(&body.into())).await?;
    if screen.is_json() {
        screen.json(&answer)?;
        return Ok(exit::DONE);
    }
    screen.line(format!("{} drains", args.mc))?;
    screen.note("`tenure meet nodes` shows its progress, `tenure meet undrain` cancels it");
    Ok(exit::DONE)
}

pub(super) async fn undrain(args: UndrainArgs, screen: &Screen) -> Result<u8> {
    let answer = order(&args.server, &args.mc, "undrain", None).await?;
    if screen.is_json() {
        screen.json(&answer)?;
        return Ok(exit::DONE);
    }
    screen.line(format!("{} accepts meetings again", args.mc))?;
    Ok(exit::DONE)
}

async fn order(server: &Server, mc: &str, what: &str, body: Option<&Value>) -> Result<Value> {
    let path = format!("/controllers/{}/{what}", segment(mc));
    Api::open(server, PATH)?.call(Method::POST, &path, body).await
}

//! `tenure meet move`: moves a meeting to another controller.

use reqwest::Method;
use serde_json::json;

use super::PATH;
use crate::cli::api::{Api, segment, text};
use crate::cli::target::Server;
use crate::cli::{Result, Screen, exit};

/// The arguments of `tenure meet move`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Id of the meeting
    id: String,
    /// Controller that takes it [default: the best one]
    #[arg(long, value_name = "MC")]
    to: Option<String>,
    #[command(flatten)]
    server: Server,
}

pub(super) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let path = format!("/meetings/{}/move", segment(&args.id));
    let body = args.to.map_or_else(|| json!({}), |to| json!({ "to": to }));
    let answer = Api::open(&args.server, PATH)?.call(Method::POST, &path, Some(&body)).await?;
    if screen.is_json() {
        screen.json(&answer)?;
        return Ok(exit::DONE);
    }
    screen.line(format!(
        "{} moves from {} to {}",
        args.id,
        text(&answer["from_mc"]),
        text(&answer["to_mc"])
    ))?;
    screen.note("`tenure meet moves` shows how it ended");
    Ok(exit::DONE)
}

//! `tenure meet moves`: the last moves and failovers.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use tenure_lease::Wall;

use super::PATH;
use crate::cli::api::{Api, text};
use crate::cli::screen::Paint;
use crate::cli::table::Table;
use crate::cli::target::Server;
use crate::cli::{Result, Screen, exit, human};

/// The arguments of `tenure meet moves`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    server: Server,
}

pub(super) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let answer = Api::open(&args.server, PATH)?.call(Method::GET, "/moves", None).await?;
    if screen.is_json() {
        screen.json(&answer)?;
        return Ok(exit::DONE);
    }
    let mut table = Table::new([
        "AT",
        "MEETING",
        "KIND",
        "REASON",
        "RESULT",
        "FROM",
        "TO",
        ">TOOK",
        ">FROZEN",
        "GENERATION",
    ]);
    let took = |value: &Value| {
        value.as_u64().map_or_else(String::new, |ms| human::format_duration(Duration::from_millis(ms)))
    };
    for entry in answer["items"].as_array().into_iter().flatten() {
        let at = entry["started_ms"].as_u64().map(|ms| human::format_time(Wall::from_micros(ms * 1_000)));
        let result = text(&entry["result"]);
        table.row([
            (Paint::Dim, at.unwrap_or_default()),
            (Paint::Bold, text(&entry["meeting_id"])),
            (Paint::Plain, text(&entry["kind"])),
            (Paint::Plain, text(&entry["reason"])),
            (if result == "completed" { Paint::Green } else { Paint::Red }, result),
            (Paint::Plain, text(&entry["from_mc"])),
            (Paint::Plain, text(&entry["to_mc"])),
            (Paint::Plain, took(&entry["duration_ms"])),
            (Paint::Plain, took(&entry["freeze_ms"])),
            (Paint::Dim, text(&entry["generation"])),
        ]);
    }
    screen.table(&table)?;
    Ok(exit::DONE)
}

//! `tenure meet ls`: running meetings.

use reqwest::Method;
use serde_json::{Value, json};

use super::PATH;
use crate::cli::api::{Api, segment, text};
use crate::cli::screen::Paint;
use crate::cli::table::Table;
use crate::cli::target::Server;
use crate::cli::{Result, Screen, exit};

/// The most meetings that are listed.
const MAX_MEETINGS: usize = 10_000;

/// The arguments of `tenure meet ls`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    server: Server,
}

pub(super) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let items = read(&Api::open(&args.server, PATH)?).await?;
    if screen.is_json() {
        screen.json(&json!({ "items": items }))?;
        return Ok(exit::DONE);
    }
    let mut table =
        Table::new(["MEETING", "NAME", "PHASE", "OWNER", ">PEOPLE", ">CONNECTED", "GENERATION", "HANDLERS"]);
    for item in &items {
        let phase = text(&item["phase"]);
        table.row([
            (Paint::Bold, text(&item["meeting_id"])),
            (Paint::Plain, text(&item["display_name"])),
            (if phase == "active" { Paint::Green } else { Paint::Yellow }, phase),
            (Paint::Plain, text(&item["owner"])),
            (Paint::Plain, text(&item["people"])),
            (Paint::Plain, text(&item["connected"])),
            (Paint::Dim, text(&item["generation"])),
            (Paint::Dim, handlers(item)),
        ]);
    }
    screen.table(&table)?;
    if items.is_empty() {
        screen.note("no meeting is running");
    }
    Ok(exit::DONE)
}

/// All running meetings.
async fn read(api: &Api) -> Result<Vec<Value>> {
    let (mut items, mut path) = (Vec::new(), "/meetings?limit=200".to_owned());
    loop {
        let page = api.call(Method::GET, &path, None).await?;
        items.extend(page["items"].as_array().cloned().unwrap_or_default());
        match page["next"].as_str() {
            Some(next) if items.len() < MAX_MEETINGS => {
                path = format!("/meetings?limit=200&after={}", segment(next));
            }
            _ => return Ok(items),
        }
    }
}

/// The media handlers of a meeting, the primary one first.
pub(super) fn handlers(meeting: &Value) -> String {
    let handlers = meeting["handlers"].as_array().into_iter().flatten().map(text);
    handlers.collect::<Vec<_>>().join(", ")
}

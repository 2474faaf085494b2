//! `tenure poll nodes`: who lives and who polls what.

use reqwest::Method;
use serde_json::Value;

use super::api::Api;
use crate::cli::screen::Paint;
use crate::cli::table::Table;
use crate::cli::target::Server;
use crate::cli::{Result, Screen, exit};

/// Which server.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    server: Server,
}

pub(super) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let picture = Api::open(&args.server)?.ask(Method::GET, "/nodes", None).await?;
    if screen.is_json() {
        screen.json(&picture)?;
        return Ok(exit::DONE);
    }
    let mut table = Table::new(["NODE", "STATUS", ">TARGETS", ">UNCERTAIN", "THIS"]);
    for node in picture["nodes"].as_array().into_iter().flatten() {
        let targets = node["targets"].as_array().cloned().unwrap_or_default();
        let doubts = targets.iter().filter(|target| target["state"] == "uncertain").count();
        let status = node["status"].as_str().unwrap_or_default();
        let foreign = if node["foreign"] == true { " (foreign)" } else { "" };
        table.row([
            (Paint::Bold, node["instance"].as_str().unwrap_or_default().to_owned()),
            (if status == "online" { Paint::Green } else { Paint::Yellow }, format!("{status}{foreign}")),
            (Paint::Plain, targets.len().to_string()),
            (Paint::Red, if doubts == 0 { String::new() } else { doubts.to_string() }),
            (Paint::Dim, if node["isThisInstance"] == true { "*".to_owned() } else { String::new() }),
        ]);
    }
    screen.table(&table)?;
    let unowned = picture["unowned"].as_array().map_or(0, Vec::len);
    if unowned > 0 {
        screen.note(&format!("{unowned} targets have no owner: paused, invalid or free"));
    }
    Ok(exit::DONE)
}

/// A text of an answer, or a dash.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

//! `tenure poll nodes`: nodes and their targets.

use reqwest::Method;

use super::PATH;
use crate::cli::api::Api;
use crate::cli::screen::Paint;
use crate::cli::table::Table;
use crate::cli::target::Server;
use crate::cli::{Result, Screen, exit};

/// The arguments of `tenure poll nodes`.
#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    server: Server,
}

pub(super) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let status = Api::open(&args.server, PATH)?.call(Method::GET, "/nodes", None).await?;
    if screen.is_json() {
        screen.json(&status)?;
        return Ok(exit::DONE);
    }
    let mut table = Table::new(["NODE", "STATUS", ">TARGETS", ">UNCERTAIN", "THIS"]);
    for node in status["nodes"].as_array().into_iter().flatten() {
        let targets = node["targets"].as_array().cloned().unwrap_or_default();
        let uncertain = targets.iter().filter(|target| target["state"] == "uncertain").count();
        let state = node["status"].as_str().unwrap_or_default();
        let foreign = if node["foreign"] == true { " (foreign)" } else { "" };
        table.row([
            (Paint::Bold, node["instance"].as_str().unwrap_or_default().to_owned()),
            (if state == "online" { Paint::Green } else { Paint::Yellow }, format!("{state}{foreign}")),
            (Paint::Plain, targets.len().to_string()),
            (Paint::Red, if uncertain == 0 { String::new() } else { uncertain.to_string() }),
            (Paint::Dim, if node["isThisInstance"] == true { "*".to_owned() } else { String::new() }),
        ]);
    }
    screen.table(&table)?;
    let unowned = status["unowned"].as_array().map_or(0, Vec::len);
    if unowned > 0 {
        screen.note(&format!("{unowned} targets have no owner (paused, invalid or not yet assigned)"));
    }
    Ok(exit::DONE)
}

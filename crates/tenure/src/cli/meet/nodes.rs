//! `tenure meet nodes`: controllers, handlers and drains.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;

use super::PATH;
use crate::cli::api::{Api, text};
use crate::cli::screen::Paint;
use crate::cli::table::Table;
use crate::cli::target::Server;
use crate::cli::{Result, Screen, exit, human};

/// The arguments of `tenure meet nodes`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    server: Server,
}

pub(super) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let answer = Api::open(&args.server, PATH)?.call(Method::GET, "/nodes", None).await?;
    if screen.is_json() {
        screen.json(&answer)?;
        return Ok(exit::DONE);
    }
    let mut table = Table::new([
        "NODE",
        "KIND",
        "HEALTH",
        ">LOAD",
        ">MEETINGS",
        ">PEOPLE",
        ">STREAMS",
        ">CPU",
        ">MEMORY",
        "REGION",
        "ZONE",
        "VERSION",
    ]);
    let percent = |value: &Value| value.as_f64().map_or_else(String::new, |value| format!("{value:.0}%"));
    for node in answer["items"].as_array().into_iter().flatten() {
        let health = text(&node["health"]);
        table.row([
            (Paint::Bold, text(&node["id"])),
            (Paint::Plain, text(&node["kind"])),
            (paint(&health), health),
            (Paint::Plain, percent(&node["load_percent"])),
            (Paint::Plain, text(&node["meetings"])),
            (Paint::Plain, text(&node["participants"])),
            (Paint::Plain, text(&node["streams"])),
            (Paint::Dim, percent(&node["cpu_percent"])),
            (Paint::Dim, percent(&node["memory_percent"])),
            (Paint::Dim, text(&node["region"])),
            (Paint::Dim, text(&node["zone"])),
            (Paint::Dim, text(&node["version"])),
        ]);
    }
    screen.table(&table)?;
    for drain in answer["drains"].as_array().into_iter().flatten() {
        screen.line(describe_drain(drain))?;
    }
    Ok(exit::DONE)
}

fn paint(health: &str) -> Paint {
    match health {
        "healthy" => Paint::Green,
        "unhealthy" => Paint::Red,
        _ => Paint::Yellow,
    }
}

/// `mc-1 draining: 3 of 5 meetings moved, 0 closed, 2 left, within 1m`
fn describe_drain(drain: &Value) -> String {
    let number = |name: &str| drain[name].as_u64().unwrap_or_default();
    let within = Duration::from_millis(number("deadline_ms").saturating_sub(number("started_ms")));
    format!(
        "{} {}: {} of {} moved, {} closed, {} left, within {}",
        text(&drain["mc_id"]),
        text(&drain["state"]),
        number("migrated"),
        human::pluralize(number("meetings") as usize, "meeting"),
        number("closed"),
        number("left"),
        human::format_duration(within)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_drain_is_one_line() {
        let drain = json!({ "mc_id": "mc-1", "state": "draining", "started_ms": 1_000, "deadline_ms": 61_000,
            "meetings": 5, "migrated": 3, "closed": 0, "left": 2 });
        assert_eq!(
            describe_drain(&drain),
            "mc-1 draining: 3 of 5 meetings moved, 0 closed, 2 left, within 1m"
        );
    }
}

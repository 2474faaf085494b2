//! `tenure poll targets`: manages polling targets.

use std::io::Read;
use std::path::PathBuf;

use clap::Subcommand;
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::PATH;
use crate::cli::api::{Api, segment, text};
use crate::cli::screen::Paint;
use crate::cli::table::Table;
use crate::cli::target::Server;
use crate::cli::{Failure, Result, Screen, exit, human};

/// The most targets of one import.
const MAX_IMPORT: usize = 100_000;

/// The commands of `tenure poll targets`.
#[derive(Subcommand, Debug)]
pub(super) enum Command {
    /// List targets with their owners and latest results
    Ls(Ls),
    /// Show a target with its owner and latest results
    Get(One),
    /// Add a target
    Add(Box<Add>),
    /// Pause a target
    Pause(One),
    /// Resume a paused target
    Resume(One),
    /// Remove a target
    Rm(One),
    /// Add or update targets from a JSON file: a list, or one object per line; - reads standard input
    Import(Import),
}

/// The arguments of `ls`.
#[derive(clap::Args, Debug)]
pub(super) struct Ls {
    #[command(flatten)]
    server: Server,
}

/// The arguments of commands for one target.
#[derive(clap::Args, Debug)]
pub(super) struct One {
    /// Id of the target
    id: String,
    #[command(flatten)]
    server: Server,
}

/// The arguments of `add`.
#[derive(clap::Args, Debug)]
pub(super) struct Add {
    /// URL to poll, such as https://host/status
    address: String,
    /// Id [default: random]
    #[arg(long)]
    id: Option<String>,
    /// Display name
    #[arg(long)]
    name: Option<String>,
    /// Interval, such as 10s [default: 4s]
    #[arg(long, value_name = "TIME", value_parser = human::parse_duration)]
    interval: Option<std::time::Duration>,
    /// Timeout of one poll
    #[arg(long, value_name = "TIME", value_parser = human::parse_duration)]
    timeout: Option<std::time::Duration>,
    /// How to extract the value: text, line:PREFIX, or a path such as `$.data[0].name`
    #[arg(long)]
    extract: Option<String>,
    /// Header to send, as NAME:VALUE; never shown afterwards
    #[arg(long, value_name = "NAME:VALUE")]
    header: Vec<String>,
    /// Bearer token to send; never shown afterwards
    #[arg(
        long,
        value_name = "TOKEN",
        env = "TENURE_POLL_BEARER",
        hide_env_values = true,
        allow_hyphen_values = true
    )]
    bearer: Option<String>,
    /// URL to post results to
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// Add the target paused
    #[arg(long)]
    paused: bool,
    #[command(flatten)]
    server: Server,
}

/// The arguments of `import`.
#[derive(clap::Args, Debug)]
pub(super) struct Import {
    /// File to import
    file: PathBuf,
    #[command(flatten)]
    server: Server,
}

pub(super) async fn run(command: Command, screen: &Screen) -> Result<u8> {
    match command {
        Command::Ls(args) => list(&Api::open(&args.server, PATH)?, screen).await,
        Command::Get(args) => get(&args, screen).await,
        Command::Add(args) => add(*args, screen).await,
        Command::Pause(args) => change(&args, Method::POST, "/pause", screen).await,
        Command::Resume(args) => change(&args, Method::POST, "/resume", screen).await,
        Command::Rm(args) => change(&args, Method::DELETE, "", screen).await,
        Command::Import(args) => import(&args, screen).await,
    }
}

fn path(id: &str) -> String {
    format!("/targets/{}", segment(id))
}

async fn list(api: &Api, screen: &Screen) -> Result<u8> {
    let (mut items, mut after) = (Vec::new(), String::new());
    loop {
        let page =
            api.call(Method::GET, &format!("/targets?limit=1000&after={}", segment(&after)), None).await?;
        items.extend(page["items"].as_array().cloned().unwrap_or_default());
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    if screen.is_json() {
        screen.json(&json!({ "items": items }))?;
        return Ok(exit::DONE);
    }
    let mut table = Table::new(["ID", "NAME", "STATE", "OWNER", "LAST", ">MS", "ADDRESS"]);
    for item in &items {
        let state = text(&item["state"]);
        let last = &item["last"];
        let (paint, word) = match (&last["ok"], &last["down"]) {
            (Value::Bool(true), _) => (Paint::Green, "ok".to_owned()),
            (Value::Bool(false), Value::Bool(true)) => (Paint::Red, "down".to_owned()),
            (Value::Bool(false), _) => (Paint::Yellow, text(&last["error"])),
            _ => (Paint::Dim, text(&item["error"])),
        };
        table.row([
            (Paint::Bold, text(&item["id"])),
            (Paint::Plain, text(&item["name"])),
            (if state == "owned" { Paint::Green } else { Paint::Yellow }, state),
            (Paint::Plain, text(&item["owner"])),
            (paint, word),
            (Paint::Dim, last["latencyMs"].as_f64().map_or_else(String::new, |ms| format!("{ms:.1}"))),
            (Paint::Dim, text(&item["address"])),
        ]);
    }
    screen.table(&table)?;
    Ok(exit::DONE)
}

async fn get(args: &One, screen: &Screen) -> Result<u8> {
    let api = Api::open(&args.server, PATH)?;
    let target = api.call(Method::GET, &path(&args.id), None).await?;
    let results = api.call(Method::GET, &format!("{}/results", path(&args.id)), None).await?;
    let history = api.call(Method::GET, &format!("{}/history", path(&args.id)), None).await?;
    let output = json!({ "target": target, "results": results["results"], "reigns": history["reigns"] });
    if screen.is_json() {
        screen.json(&output)?;
        return Ok(exit::DONE);
    }
    screen.line(serde_json::to_string_pretty(&target).unwrap_or_default())?;
    let mut table = Table::new([">AT", "OWNER", "GENERATION", "STATUS", ">MS", "VALUE"]);
    for result in results["results"].as_array().into_iter().flatten().rev().take(10) {
        let value: String = text(&result["value"]).chars().take(60).collect();
        let ok = result["ok"] == true;
        table.row([
            (Paint::Dim, text(&result["at"])),
            (Paint::Plain, text(&result["instance"])),
            (Paint::Dim, text(&result["generation"])),
            (if ok { Paint::Green } else { Paint::Red }, text(&result["status"])),
            (Paint::Dim, text(&result["latencyMs"])),
            (Paint::Plain, if ok { value } else { text(&result["error"]) }),
        ]);
    }
    screen.table(&table)?;
    Ok(exit::DONE)
}

async fn add(args: Add, screen: &Screen) -> Result<u8> {
    let mut record = Map::from_iter([("address".to_owned(), Value::String(args.address))]);
    let texts = [
        ("id", args.id),
        ("name", args.name),
        ("extract", args.extract),
        ("bearer", args.bearer),
        ("webhook", args.webhook),
    ];
    record.extend(texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), Value::String(text?)))));
    for (name, time) in [("intervalMs", args.interval), ("timeoutMs", args.timeout)] {
        if let Some(time) = time {
            record.insert(name.to_owned(), (time.as_millis() as u64).into());
        }
    }
    let mut headers = Map::new();
    for header in args.header {
        let (name, value) = header
            .split_once(':')
            .ok_or_else(|| Failure::usage(format!("--header: {header:?} must have the form NAME:VALUE")))?;
        headers.insert(name.trim().to_owned(), value.trim().into());
    }
    if !headers.is_empty() {
        record.insert("headers".to_owned(), headers.into());
    }
    if args.paused {
        record.insert("isPaused".to_owned(), true.into());
    }
    let created = Api::open(&args.server, PATH)?.call(Method::POST, "/targets", Some(&record.into())).await?;
    if screen.is_json() {
        screen.json(&created)?;
    } else {
        screen.line(text(&created["id"]))?;
    }
    Ok(exit::DONE)
}

async fn change(args: &One, method: Method, what: &str, screen: &Screen) -> Result<u8> {
    let response =
        Api::open(&args.server, PATH)?.call(method, &format!("{}{what}", path(&args.id)), None).await?;
    if screen.is_json() {
        screen.json(&response)?;
    }
    Ok(exit::DONE)
}

/// Adds new targets and updates existing ones. The whole file is validated before anything is sent.
async fn import(args: &Import, screen: &Screen) -> Result<u8> {
    let records = parse_records(&read_source(&args.file)?)?;
    let api = Api::open(&args.server, PATH)?;
    let (mut added, mut changed) = (0, 0);
    for record in records {
        let known = record["id"].as_str().map(path);
        match api.call(Method::POST, "/targets", Some(&record)).await {
            Ok(_) => added += 1,
            Err(failure) => match known.filter(|_| failure.is("CONFLICT")) {
                Some(known) => {
                    api.call(Method::PATCH, &known, Some(&record)).await?;
                    changed += 1;
                }
                None => return Err(failure.during(&format!("after {} targets", added + changed))),
            },
        }
    }
    if screen.is_json() {
        screen.json(&json!({ "added": added, "changed": changed }))?;
    } else {
        screen.line(format!("{added} added, {changed} changed"))?;
    }
    Ok(exit::DONE)
}

fn read_source(file: &PathBuf) -> Result<String> {
    let mut text = String::new();
    let read = match file.as_os_str() == "-" {
        true => std::io::stdin().read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(file).map(|read| text = read),
    };
    read.map_err(|error| Failure::usage(format!("cannot read {}: {error}", file.display())))?;
    Ok(text)
}

fn parse_records(text: &str) -> Result<Vec<Value>> {
    let records: Vec<Value> = match serde_json::from_str(text) {
        Ok(Value::Array(list)) => list,
        Ok(one @ Value::Object(_)) => vec![one],
        _ => text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
            .map(|(i, line)| {
                serde_json::from_str(line).map_err(|error| Failure::usage(format!("line {}: {error}", i + 1)))
            })
            .collect::<Result<_>>()?,
    };
    if records.len() > MAX_IMPORT {
        return Err(Failure::usage(format!(
            "too many targets: {}; one import may have at most {MAX_IMPORT}",
            records.len()
        )));
    }
    match records.iter().position(|record| !record["address"].is_string()) {
        Some(at) => Err(Failure::usage(format!("target {} has no address; nothing was imported", at + 1))),
        None => Ok(records),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_import_is_a_list_or_lines_and_is_validated_as_a_whole() {
        let list = r#"[{"address": "http://a"}, {"address": "http://b"}]"#;
        let lines = "{\"address\": \"http://a\"}\n\n{\"address\": \"http://b\"}\n";
        assert_eq!(parse_records(list).unwrap(), parse_records(lines).unwrap());
        for bad in ["[{}]", "{\"address\": \"http://a\"}\n{", "x", "[1]"] {
            assert!(parse_records(bad).is_err(), "{bad}");
        }
    }
}

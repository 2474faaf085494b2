//! `tenure lease history`.

use std::time::Duration;

use serde::Serialize;
use tenure_lease::{End, Key, Reign, Wall};

use crate::cli::screen::Paint;
use crate::cli::table::Table;
use crate::cli::{Result, Screen, Target, connect, exit, human};

/// The arguments of `tenure lease history`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Key to show
    #[arg(value_parser = super::key)]
    key: Key,
    #[command(flatten)]
    target: Target,
}

#[derive(Serialize)]
struct HistoryView {
    reigns: Vec<tenure_lease_api::ReignBody>,
}

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let store = connect(&args.target).await?;
    let reigns = store.history(&args.key).await?;
    if screen.is_json() {
        screen.json(&HistoryView { reigns: reigns.iter().map(Into::into).collect() })?;
        return Ok(exit::DONE);
    }
    if reigns.is_empty() {
        screen.note(&format!("{} has no history in this store", args.key));
        return Ok(exit::DONE);
    }
    screen.table(&table(&reigns, store.clock().wall()))?;
    Ok(exit::DONE)
}

fn table(reigns: &[Reign], now: Wall) -> Table {
    let mut table = Table::new(["FROM", "UNTIL", ">LASTED", "HOLDER", ">GENERATION", "END"]);
    for reign in reigns {
        let until = reign.until.unwrap_or(now);
        let lasted = Duration::from_micros(until.as_micros().saturating_sub(reign.from.as_micros()));
        table.row([
            (Paint::Plain, human::format_time(reign.from)),
            (Paint::Plain, reign.until.map(human::format_time).unwrap_or_default()),
            (Paint::Plain, human::format_duration(lasted)),
            (Paint::Bold, reign.holder.to_string()),
            (Paint::Plain, reign.generation.to_string()),
            (paint(reign.end), reign.end.map_or("held now", End::as_str).to_owned()),
        ]);
    }
    table
}

const fn paint(end: Option<End>) -> Paint {
    match end {
        None => Paint::Green,
        Some(End::Released | End::Transferred) => Paint::Plain,
        Some(End::Expired | End::HolderDied | End::Superseded) => Paint::Yellow,
        Some(End::Revoked | End::Wiped | End::Gone) => Paint::Red,
    }
}

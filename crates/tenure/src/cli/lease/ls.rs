//! `tenure lease ls`.

use tenure_lease::{Phase, Prefix, Query, Status, limits};

use crate::cli::screen::Paint;
use crate::cli::table::Table;
use crate::cli::view::ListView;
use crate::cli::{Result, Screen, Target, connect, exit, human};

/// The arguments of `tenure lease ls`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Only keys with this prefix
    #[arg(default_value = "", value_parser = super::prefix, hide_default_value = true)]
    prefix: Prefix,
    /// Maximum number of keys
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// List all keys
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let store = connect(&args.target).await?;
    let most = if args.all { usize::MAX } else { args.limit as usize };
    let mut query = Query::new(args.prefix);
    let mut items: Vec<Status> = Vec::new();
    let mut revision = None;
    loop {
        query.limit = limits::BATCH.min(most - items.len());
        let page = store.list(&query).await?;
        items.extend(page.items);
        // The revision of the first page, so that a watch from it includes changes during the listing.
        revision.get_or_insert(page.revision);
        query.after = page.next;
        if query.after.is_none() || items.len() >= most {
            break;
        }
    }
    if screen.is_json() {
        let next = query.after.map(|key| key.to_string());
        let revision = revision.unwrap_or_default().get().to_string();
        screen.json(&ListView { items: items.iter().map(Into::into).collect(), next, revision })?;
        return Ok(exit::DONE);
    }
    if items.is_empty() {
        screen.note("no keys are held");
        return Ok(exit::DONE);
    }
    screen.table(&table(&items))?;
    if query.after.is_some() {
        screen.note(&format!("showing the first {}; --all shows all", human::pluralize(items.len(), "key")));
    }
    Ok(exit::DONE)
}

fn table(items: &[Status]) -> Table {
    let mut table =
        Table::new(["KEY", "STATE", "HOLDER", ">GENERATION", ">LEFT", ">WAITING", "SINCE", "META"]);
    for status in items {
        let text = |paint: Paint, text: Option<String>| (paint, text.unwrap_or_default());
        table.row([
            (Paint::Bold, status.key.to_string()),
            (paint(status.phase), tenure_lease_api::state(status.phase).to_owned()),
            text(Paint::Plain, status.holder.as_ref().map(ToString::to_string)),
            text(Paint::Plain, status.generation.map(|generation| generation.to_string())),
            text(Paint::Plain, status.remaining.map(human::format_duration)),
            text(Paint::Plain, (status.waiters > 0).then(|| status.waiters.to_string())),
            text(Paint::Dim, status.since.map(human::format_time)),
            text(Paint::Dim, Some(one_line(status.meta.as_str()))),
        ]);
    }
    table
}

/// The color of a state.
pub(super) const fn paint(phase: Phase) -> Paint {
    match phase {
        Phase::Held => Paint::Green,
        Phase::Delayed | Phase::Reserved => Paint::Yellow,
        Phase::Free => Paint::Dim,
    }
}

/// Metadata in one line, truncated and without control characters.
pub(super) fn one_line(text: &str) -> String {
    const WIDTH: usize = 40;
    let mut short: String = text.chars().take(WIDTH).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().count() > WIDTH {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_has_no_control_characters() {
        assert_eq!(one_line("a\x1b[2Jb\nc"), "a [2Jb c");
        assert_eq!(one_line(&"m".repeat(100)).chars().count(), 41);
    }
}

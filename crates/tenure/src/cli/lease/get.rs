//! `tenure lease get`.

use tenure_lease::{Key, Phase, Status};

use super::ls;
use crate::cli::{Result, Screen, Target, connect, exit, human};

/// The arguments of `tenure lease get`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Key to show
    #[arg(value_parser = super::key)]
    key: Key,
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let status = connect(&args.target).await?.inspect(&args.key).await?;
    if screen.is_json() {
        screen.json(&tenure_lease_api::StatusBody::from(&status))?;
        return Ok(exit::DONE);
    }
    let state = screen.paint(ls::paint(status.phase), tenure_lease_api::state(status.phase));
    screen.line(format!("{}  {state}", status.key))?;
    for (name, value) in lines(&status) {
        screen.line(format!("  {name:<12}{value}"))?;
    }
    Ok(exit::DONE)
}

fn lines(status: &Status) -> Vec<(&'static str, String)> {
    let (who, left, generation) = match status.phase {
        Phase::Held => ("holder", "left", "generation"),
        Phase::Reserved => ("for", "left", "last gen."),
        Phase::Delayed | Phase::Free => ("last holder", "free in", "last gen."),
    };
    let all = [
        (who, status.holder.as_ref().map(ToString::to_string)),
        (generation, status.generation.map(|generation| generation.to_string())),
        (left, status.remaining.map(human::format_duration)),
        ("since", status.since.map(human::format_time)),
        ("waiting", (status.waiters > 0).then(|| human::pluralize(status.waiters as usize, "claim"))),
        ("meta", (!status.meta.is_empty()).then(|| ls::one_line(status.meta.as_str()))),
    ];
    all.into_iter().filter_map(|(name, value)| value.map(|value| (name, value))).collect()
}

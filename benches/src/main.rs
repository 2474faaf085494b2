//! Load generators and peers, measured side by side: A and B in one run, in alternating slices, with A
//! against itself as the control.

mod callers;
mod cases;
mod clock;
mod contest;
mod counting;
mod machine;
mod numbers;
mod peers;
mod report;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};

use crate::cases::Bench;

/// Measures Tenure and what one would use instead, side by side, and prints Markdown.
#[derive(Parser)]
#[command(name = "cargo xtask bench")]
struct Args {
    /// What to measure.
    case: Case,
    /// How long one round of a contest lasts, in seconds.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// How many rounds; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// A folder on the disk to measure; the system's temporary folder by default.
    #[arg(long)]
    dir: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Case {
    EmbeddedRenew,
    EmbeddedCycle,
    EmbeddedMillion,
    RedisCycle,
    RedisRenew,
    RedisHandover,
    PollSpread,
    PollRate,
    PollCluster,
    All,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let dir = args.dir.unwrap_or_else(std::env::temp_dir);
    machine::on_disk(&dir)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().context("a runtime")?;
    let bench = Bench { runtime: &runtime, dir: &dir, seconds: args.seconds, rounds: args.rounds as usize };
    report::line(&machine::facts(&dir)?);
    report::line(&format!("{} rounds of {} s.", args.rounds, args.seconds));
    let chosen: &[Case] = match args.case {
        // Memory first, while the process is small.
        Case::All => &[
            Case::EmbeddedMillion,
            Case::EmbeddedRenew,
            Case::EmbeddedCycle,
            Case::RedisCycle,
            Case::RedisRenew,
            Case::RedisHandover,
            Case::PollSpread,
            Case::PollRate,
            Case::PollCluster,
        ],
        ref one => std::slice::from_ref(one),
    };
    for case in chosen {
        match case {
            Case::EmbeddedRenew => cases::embedded_renew::run(&bench)?,
            Case::EmbeddedCycle => cases::embedded_cycle::run(&bench)?,
            Case::EmbeddedMillion => cases::embedded_million::run(&bench)?,
            Case::RedisCycle => cases::redis_cycle::run(&bench)?,
            Case::RedisRenew => cases::redis_renew::run(&bench)?,
            Case::RedisHandover => cases::redis_handover::run(&bench)?,
            Case::PollSpread => cases::poll_spread::run()?,
            Case::PollRate => cases::poll_rate::run(&bench)?,
            Case::PollCluster => cases::poll_cluster::run(&bench)?,
            Case::All => {}
        }
    }
    Ok(())
}

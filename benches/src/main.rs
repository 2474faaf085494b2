//! Benchmarks of Tenure and its peers: both run in alternating slices, with Tenure against itself as the control.

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

/// Measures Tenure and its alternatives side by side and prints Markdown
#[derive(Parser)]
#[command(name = "cargo xtask bench")]
struct Args {
    /// Case to measure
    case: Case,
    /// Duration of one round, in seconds
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Number of rounds; the median counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: u64,
    /// Directory on the disk to measure [default: the temporary directory of the system]
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
    Control,
    NetworkCycle,
    NetworkRenew,
    NetworkFight,
    NetworkHandover,
    NetworkExpiry,
    NetworkMemory,
    PollSpread,
    PollRate,
    PollCluster,
    Sessions,
    Meet,
    /// Server of bare WebTransport sessions, started by the meeting cases
    #[value(hide = true)]
    MeetBare,
    Media,
    /// A media handler alone, started by the media case
    #[value(hide = true)]
    MediaHandler,
    /// A program that copies media and does nothing else, started by the media case
    #[value(hide = true)]
    MediaBare,
    /// All cases over the network
    Network,
    /// All cases
    All,
}

/// Cases in process and over Redis. The memory case comes first, while this process is small.
const OWN: &[Case] = &[
    Case::EmbeddedMillion,
    Case::EmbeddedRenew,
    Case::EmbeddedCycle,
    Case::RedisCycle,
    Case::RedisRenew,
    Case::RedisHandover,
    Case::Control,
    Case::PollSpread,
    Case::PollRate,
    Case::PollCluster,
    Case::Sessions,
    Case::Meet,
    Case::Media,
];
/// Cases against `tenure up` in a separate process.
const NETWORK: &[Case] = &[
    Case::NetworkCycle,
    Case::NetworkRenew,
    Case::NetworkFight,
    Case::NetworkHandover,
    Case::NetworkExpiry,
    Case::NetworkMemory,
];

fn main() -> Result<()> {
    let args = Args::parse();
    let dir = args.dir.unwrap_or_else(std::env::temp_dir);
    let is_server = matches!(args.case, Case::MeetBare | Case::MediaHandler | Case::MediaBare);
    if !is_server {
        machine::on_disk(&dir)?;
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot build a runtime")?;
    let bench = Bench { runtime: &runtime, dir: &dir, seconds: args.seconds, rounds: args.rounds as usize };
    match args.case {
        Case::MeetBare => return cases::meet::serve_bare(&runtime),
        Case::MediaHandler => return cases::media::serve_handler(&runtime),
        Case::MediaBare => return cases::media::serve_bare(&runtime),
        _ => {}
    }
    report::line(&machine::facts(&dir)?);
    report::line(&format!("{} rounds of {} s.", args.rounds, args.seconds));
    let chosen = match args.case {
        Case::All => [OWN, NETWORK].concat(),
        Case::Network => NETWORK.to_vec(),
        one => vec![one],
    };
    for case in chosen {
        match case {
            Case::EmbeddedRenew => cases::embedded_renew::run(&bench)?,
            Case::EmbeddedCycle => cases::embedded_cycle::run(&bench)?,
            Case::EmbeddedMillion => cases::embedded_million::run(&bench)?,
            Case::RedisCycle => cases::redis_cycle::run(&bench)?,
            Case::RedisRenew => cases::redis_renew::run(&bench)?,
            Case::RedisHandover => cases::redis_handover::run(&bench)?,
            Case::Meet => cases::meet::run(&bench)?,
            Case::PollSpread => cases::poll_spread::run()?,
            Case::PollRate => cases::poll_rate::run(&bench)?,
            Case::PollCluster => cases::poll_cluster::run(&bench)?,
            Case::Control => cases::control::run(&bench)?,
            Case::Sessions => cases::sessions::run(&bench)?,
            Case::NetworkCycle => cases::network_cycle::run(&bench)?,
            Case::NetworkRenew => cases::network_renew::run(&bench)?,
            Case::NetworkFight => cases::network_fight::run(&bench)?,
            Case::NetworkHandover => cases::network_handover::run(&bench)?,
            Case::NetworkExpiry => cases::network_expiry::run(&bench)?,
            Case::NetworkMemory => cases::network_memory::run(&bench)?,
            Case::Media => cases::media::run(&bench)?,
            Case::MeetBare | Case::MediaHandler | Case::MediaBare | Case::Network | Case::All => {}
        }
    }
    Ok(())
}

//! `tenure bench`: benchmarks stores.

mod histogram;
mod load;

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use tenure_lease::Clock;
use tenure_store::BootClock;

use self::histogram::Histogram;
use self::load::{Load, Work};
use super::screen::Paint;
use super::table::Table;
use super::target::Server;
use super::{Result, Screen, Target, exit, human};

/// The arguments of `tenure bench`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Store to measure; repeat to compare several with the first [default: the running server]
    #[arg(long, value_name = "URL")]
    store: Vec<String>,
    /// Number of concurrent clients
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    clients: u32,
    /// Duration of each measurement, in seconds
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=300))]
    seconds: u32,
    #[command(flatten)]
    server: Server,
}

/// One row of the result.
#[derive(Debug, Serialize)]
struct Measurement {
    store: String,
    operation: &'static str,
    clients: u32,
    seconds: f64,
    count: u64,
    errors: u64,
    per_second: f64,
    p50_us: u64,
    p90_us: u64,
    p99_us: u64,
    max_us: u64,
}

#[derive(Serialize)]
struct BenchView {
    results: Vec<Measurement>,
}

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let targets: Vec<Target> = match args.store.as_slice() {
        [] => vec![Target { store: None, server: args.server.clone() }],
        stores => stores.iter().map(|store| Target::of(store, &args.server)).collect(),
    };
    let mut results = Vec::new();
    for target in &targets {
        let location = target.locate()?;
        let load = Load::new(location.open().await?, args.clients)?;
        for work in [Work::Cycle, Work::Renew] {
            results.push(measure(&load, work, location.display_url(), &args).await?);
        }
    }
    if screen.is_json() {
        screen.json(&BenchView { results })?;
    } else {
        screen.table(&table(&results))?;
    }
    Ok(exit::DONE)
}

async fn measure(load: &Load, work: Work, store: String, args: &Args) -> Result<Measurement> {
    let limit = Duration::from_secs(u64::from(args.seconds));
    let bar = progress(&store, work, limit);
    let (start, mut running) = load.start(work, limit).await?;
    let mut total = Histogram::default();
    let mut errors = 0;
    loop {
        let tick = BootClock.now() + Duration::from_millis(100);
        tokio::select! {
            joined = running.join_next() => match joined {
                Some(Ok((latencies, failed))) => {
                    total.merge(&latencies);
                    errors += failed;
                }
                Some(Err(error)) => return Err(super::Failure::internal(format!("a client task failed: {error}"))),
                None => break,
            },
            () = BootClock.sleep_until(tick) => {
                bar.set_position(BootClock.now().since(start).as_millis() as u64);
            }
        }
    }
    let seconds = BootClock.now().since(start).as_secs_f64();
    bar.finish_and_clear();
    let micros = |part: f64| total.quantile(part).as_micros() as u64;
    Ok(Measurement {
        store,
        operation: work.name(),
        clients: args.clients,
        seconds,
        count: total.count(),
        errors,
        per_second: total.count() as f64 / seconds,
        p50_us: micros(0.5),
        p90_us: micros(0.9),
        p99_us: micros(0.99),
        max_us: micros(1.0),
    })
}

/// A progress bar, shown on a terminal only.
fn progress(store: &str, work: Work, limit: Duration) -> ProgressBar {
    let bar = ProgressBar::new(limit.as_millis() as u64);
    if let Ok(style) = ProgressStyle::with_template("{msg} {bar:40} {percent}%") {
        bar.set_style(style);
    }
    bar.set_message(format!("{store} {}", work.name()));
    bar
}

fn table(results: &[Measurement]) -> Table {
    let columns = [
        "STORE",
        "OPERATION",
        ">CLIENTS",
        ">PER SECOND",
        ">RATIO",
        ">P50",
        ">P90",
        ">P99",
        ">MAX",
        ">ERRORS",
    ];
    let mut table = Table::new(columns);
    for one in results {
        let first = results.iter().find(|other| other.operation == one.operation);
        let ratio = first.filter(|first| first.store != one.store && first.per_second > 0.0);
        let latency = |micros: u64| (Paint::Plain, human::format_latency(Duration::from_micros(micros)));
        table.row([
            (Paint::Bold, one.store.clone()),
            (Paint::Plain, one.operation.to_owned()),
            (Paint::Plain, one.clients.to_string()),
            (Paint::Green, format!("{:.0}", one.per_second)),
            (
                Paint::Plain,
                ratio.map(|f| format!("{:.2}×", one.per_second / f.per_second)).unwrap_or_default(),
            ),
            latency(one.p50_us),
            latency(one.p90_us),
            latency(one.p99_us),
            latency(one.max_us),
            (Paint::Red, if one.errors > 0 { one.errors.to_string() } else { String::new() }),
        ]);
    }
    table
}

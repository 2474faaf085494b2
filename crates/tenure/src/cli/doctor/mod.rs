//! `tenure doctor`: checks the store and the clocks.

mod cycle;
mod disk;
mod profile;
mod report;
mod salvage;
mod time;

use std::path::PathBuf;

use self::report::Report;
use self::time::ClockCheck;
use super::{Result, Screen, Target};

/// The arguments of `tenure doctor`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Save what can be read of a damaged embedded store to this new directory, and list what cannot
    #[arg(long, value_name = "NEWDIR", requires = "store")]
    salvage: Option<PathBuf>,
}

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let mut report = Report::default();
    match &args.salvage {
        Some(to) => salvage::run(&args.target, to, &mut report).await?,
        None => run_checks(&args.target, &mut report).await,
    }
    report.print(screen)
}

async fn run_checks(target: &Target, report: &mut Report) {
    let location = match target.locate() {
        Ok(location) => location,
        Err(failure) => return report.fail_with("store", &failure),
    };
    // The clocks of this machine are checked even if the store is unavailable.
    let clocks = ClockCheck::begin();
    let store = match location.open().await {
        Ok(store) => store,
        Err(failure) => {
            clocks.end(report).await;
            return report.fail_with("store", &failure);
        }
    };
    report.ok("store", format!("{} is reachable", location.display_url()));
    profile::capabilities(&store.capabilities(), report);
    profile::warnings(&store.warnings(), report);
    profile::round_trip(&store, report).await;
    if let Some(dir) = location.directory() {
        disk::check(dir, report);
    }
    cycle::check(&store, report).await;
    clocks.end(report).await;
}

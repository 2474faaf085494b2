//! `tenure doctor`: does the engine keep what it states, and is the clock one to hold leases by?

mod cycle;
mod disk;
mod profile;
mod report;
mod time;

use self::report::Report;
use self::time::Times;
use super::{Result, Screen, Target};

/// What to examine.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
}

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let mut report = Report::default();
    examine(&args.target, &mut report).await;
    report.tell(screen)
}

async fn examine(target: &Target, report: &mut Report) {
    let place = match target.place() {
        Ok(place) => place,
        Err(failure) => return report.refused("store", &failure),
    };
    // The process's own clock first: it matters whatever the store says.
    let times = Times::begin();
    let store = match place.open().await {
        Ok(store) => store,
        Err(failure) => {
            times.end(report).await;
            return report.refused("store", &failure);
        }
    };
    report.ok("store", format!("{} answers", place.shown()));
    profile::capabilities(&store.capabilities(), report);
    profile::round_trip(&store, report).await;
    if let Some(folder) = place.folder() {
        disk::check(folder, report);
    }
    cycle::check(&store, report).await;
    times.end(report).await;
}

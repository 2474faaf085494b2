//! Saving what can be read of a damaged embedded store.

use std::path::Path;

use tenure_store::{BootClock, Local};

use super::report::Report;
use crate::cli::{Failure, Result, Target};

/// The most parts that are listed one by one.
const MAX_LISTED: usize = 100;

/// Writes what can be read to the directory `to` and reports what cannot.
pub(super) async fn run(target: &Target, to: &Path, report: &mut Report) -> Result {
    let location = target.locate()?;
    let Some(from) = location.directory().map(Path::to_path_buf) else {
        return Err(Failure::usage(
            "--salvage needs the directory of an embedded store: --store embedded:DIR",
        ));
    };
    let target = to.to_path_buf();
    let salvaged = tokio::task::spawn_blocking(move || Local::salvage(from, target, &BootClock))
        .await
        .map_err(|error| Failure::internal(error.to_string()))??;
    let (keys, records, entries) = (salvaged.keys, salvaged.records, salvaged.log_entries);
    report.ok("salvage", format!("{}: {keys} keys, {records} records, {entries} log entries", to.display()));
    for lost in salvaged.lost.iter().take(MAX_LISTED) {
        report.warn("lost", lost, "restore it from a backup if you need it");
    }
    if salvaged.lost.len() > MAX_LISTED {
        report.warn("lost", format!("{} more parts", salvaged.lost.len() - MAX_LISTED), "restore a backup");
    }
    let detail = "leases that only the lost parts knew are free in the new directory";
    match salvaged.lost.is_empty() {
        true => report.ok("lost", "nothing"),
        false => {
            report.warn("start", detail, "wait for the longest TTL in use before you start a server on it")
        }
    }
    Ok(())
}

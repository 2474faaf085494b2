//! The folder of an embedded store.

use std::path::Path;

use rustix::fs::statvfs;

use super::report::Report;

/// Below this much free space the disk is about to be full: a few segments of the journal.
const SCARCE: u64 = 256 << 20;

pub(super) fn check(folder: &Path, report: &mut Report) {
    let shown = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    match statvfs(folder) {
        Ok(disk) => judge(&shown.display().to_string(), disk.f_bavail * disk.f_frsize, report),
        Err(error) => {
            report.warn("folder", format!("{}: {error}", shown.display()), "is the folder still there?");
        }
    }
}

fn judge(folder: &str, free: u64, report: &mut Report) {
    let detail = format!("{folder}, {} MiB free", free >> 20);
    if free >= SCARCE {
        return report.ok("folder", detail);
    }
    report.warn(
        "folder",
        detail,
        "a full disk loses nothing, but no lease is granted until there is room: make some",
    );
}

//! The directory of an embedded store.

use std::path::Path;

use rustix::fs::statvfs;

use super::report::Report;

/// Free space that triggers a warning: a few segments of the journal.
const LOW_SPACE: u64 = 256 << 20;

pub(super) fn check(dir: &Path, report: &mut Report) {
    let path = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    match statvfs(dir) {
        Ok(disk) => check_free_space(&path.display().to_string(), disk.f_bavail * disk.f_frsize, report),
        Err(error) => {
            report.warn("folder", format!("{}: {error}", path.display()), "check that the directory exists");
        }
    }
}

fn check_free_space(dir: &str, free: u64, report: &mut Report) {
    let detail = format!("{dir}, {} MiB free", free >> 20);
    if free >= LOW_SPACE {
        return report.ok("folder", detail);
    }
    report.warn("folder", detail, "free some space: on a full disk nothing is lost, but no lease is granted");
}

//! A separate wall clock for one server, through libfaketime, which reads the time from a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// Library directories.
const PLACES: [&str; 4] = ["/usr/lib", "/lib", "/usr/lib64", "/lib64"];
const MISSING: &str = "libfaketime not found: apt-get install faketime (cargo xtask test does it)";

/// Makes a program read the time from `file`.
pub(super) fn give(command: &mut Command, file: &Path) -> Result<()> {
    let fake = find("faketime/libfaketime.so.1").context(MISSING)?;
    // The allocator of Redis reads the time before libfaketime is initialized; that of the C library does not.
    let malloc =
        find("libc_malloc_debug.so.0").context("the C library's libc_malloc_debug.so.0 not found")?;
    command
        .env("LD_PRELOAD", format!("{} {}", malloc.display(), fake.display()))
        .env("FAKETIME_TIMESTAMP_FILE", file)
        .env("FAKETIME_NO_CACHE", "1")
        .env("TZ", "UTC")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    Ok(())
}

/// Sets the difference to the clock of the machine, in seconds.
pub(super) fn offset(file: &Path, seconds: i64) -> Result<()> {
    replace(file, &format!("{seconds:+}\n"))
}

/// Stops the clock at this many microseconds since the Unix epoch.
pub(super) fn freeze(file: &Path, micros: u64) -> Result<()> {
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    let (year, month, day) = civil_date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    let (date, time) =
        (format!("{year:04}-{month:02}-{day:02}"), format!("{hour:02}:{minute:02}:{second:02}"));
    // Half a microsecond is added, because libfaketime parses a floating-point number and rounds down.
    replace(file, &format!("{date} {time}.{fraction:06}5\n"))
}

/// Replaces the file in one step, so that the server never reads half of it.
fn replace(file: &Path, text: &str) -> Result<()> {
    let next = file.with_extension("next");
    fs::write(&next, text).context("cannot write the clock file")?;
    fs::rename(&next, file).context("cannot replace the clock file")
}

/// The date of a day after 1970 in the Gregorian calendar, counted in years that begin in March.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// Finds a library, also in the directories of the architecture.
fn find(name: &str) -> Option<PathBuf> {
    PLACES.iter().find_map(|place| {
        let folders = fs::read_dir(place).ok()?.flatten().map(|entry| entry.path());
        std::iter::once(PathBuf::from(place))
            .chain(folders)
            .map(|folder| folder.join(name))
            .find(|path| path.is_file())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_the_date_of_the_calendar() {
        assert_eq!(civil_date(0), (1970, 1, 1));
        assert_eq!(civil_date(11_016), (2000, 2, 29));
        assert_eq!(civil_date(19_722), (2023, 12, 31));
    }
}

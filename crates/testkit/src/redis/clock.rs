//! A wall clock of a server's own: what it asks the system for the time is answered by libfaketime, from a file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// Where libraries lie.
const PLACES: [&str; 4] = ["/usr/lib", "/lib", "/usr/lib64", "/lib64"];
const MISSING: &str = "libfaketime not found: apt-get install faketime (cargo xtask test does it)";

/// Lets a program read its time from `file`.
pub(super) fn give(command: &mut Command, file: &Path) -> Result<()> {
    let fake = find("faketime/libfaketime.so.1").context(MISSING)?;
    // Redis' own allocator asks for the time before that library is ready; the system's does not.
    let malloc =
        find("libc_malloc_debug.so.0").context("the C library's libc_malloc_debug.so.0 not found")?;
    command
        .env("LD_PRELOAD", format!("{} {}", malloc.display(), fake.display()))
        .env("FAKETIME_TIMESTAMP_FILE", file)
        .env("FAKETIME_NO_CACHE", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    Ok(())
}

/// Sets it so many seconds off the machine's.
pub(super) fn set(file: &Path, seconds: i64) -> Result<()> {
    let next = file.with_extension("next");
    fs::write(&next, format!("{seconds:+}\n")).context("write a server's clock")?;
    // In one step, so that nobody reads half of it.
    fs::rename(&next, file).context("set a server's clock")
}

/// Finds a library, also in the folders that are named after the machine's kind.
fn find(name: &str) -> Option<PathBuf> {
    PLACES.iter().find_map(|place| {
        let folders = fs::read_dir(place).ok()?.flatten().map(|entry| entry.path());
        std::iter::once(PathBuf::from(place))
            .chain(folders)
            .map(|folder| folder.join(name))
            .find(|path| path.is_file())
    })
}

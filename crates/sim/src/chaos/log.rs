//! Writing a history while it happens, so that a killed process leaves what it knew.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

use super::clock;
use crate::history::{Client, Event, What};

/// The history of one client.
pub(super) struct Log {
    file: Mutex<File>,
    client: Client,
    next: AtomicU64,
}

impl Log {
    pub(super) fn open(path: &Path, client: Client) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.with_context(|| format!("open the history {}", path.display()))?;
        Ok(Self { file: Mutex::new(file), client, next: AtomicU64::new(0) })
    }

    pub(super) const fn client(&self) -> Client {
        self.client
    }

    /// A number that no other client's log gives out.
    pub(super) fn number(&self) -> u64 {
        u64::from(self.client) << 32 | self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Writes down what happens now. It is in the kernel's hands when this returns: a kill does not lose it.
    pub(super) fn note(&self, what: What) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let event = Event { at: clock::now().as_nanos(), what };
        let mut line = serde_json::to_vec(&event)?;
        line.push(b'\n');
        file.write_all(&line)
    }
}

/// The events of a log from a byte on. The last line may have been cut by a kill.
pub(super) fn read(path: &Path, from: u64) -> Result<Vec<Event>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        file => file?,
    };
    file.seek(SeekFrom::Start(from))?;
    let mut lines = BufReader::new(file);
    let mut events = Vec::new();
    loop {
        let mut line = Vec::new();
        lines.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Ok(events);
        }
        match serde_json::from_slice(&line) {
            Ok(event) => events.push(event),
            Err(error) => bail!("{} has a line that is no event: {error}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_cut_is_left_out_and_a_strange_one_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let log = Log::open(&path, 3).unwrap();
        log.note(What::Healed).unwrap();
        log.note(What::End).unwrap();
        assert!(log.number() != log.number());
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"at\":").unwrap();
        let events = read(&path, 0).unwrap();
        assert_eq!(events.len(), 2);
        assert!(events[0].at <= events[1].at && events[1].what == What::End);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"\n").unwrap();
        assert!(read(&path, 0).is_err());
        assert!(read(&dir.path().join("none"), 0).unwrap().is_empty());
    }
}

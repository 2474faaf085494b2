//! The journal: two alternating segments of framed batches.
//!
//! Each use of a segment has an epoch, which its frames carry: leftovers of an earlier epoch are never read. A torn or lost
//! frame ends the segment; nothing after it was acknowledged.

use std::io;

use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Error, Result};

use super::storage::{Storage, StorageFile};
use crate::local::rows::corrupt;

/// Length, checksum, epoch, number within the epoch.
const HEADER: usize = 4 + 4 + 8 + 8;

/// Makes batches durable.
pub(crate) struct Journal {
    segments: [Box<dyn StorageFile>; 2],
    size: u64,
    active: usize,
    epoch: u64,
    frames: u64,
    offset: u64,
    frame: Vec<u8>,
}

/// The batches of one epoch.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) epoch: u64,
    pub(crate) batches: Vec<Vec<u8>>,
}

impl Journal {
    /// Opens the segments and returns their contents, oldest epoch first. Call [`Journal::begin`] before the first append.
    pub(crate) fn open(storage: &dyn Storage, size: u64) -> Result<(Self, Vec<Segment>)> {
        let open = |name: &str| {
            storage.open(name, size).map_err(|e| {
                Error::unavailable("embedded", format!("cannot open {name}: {}", describe_io_error(&e)))
                    .because(e)
            })
        };
        let mut segments = [open("journal-a.log")?, open("journal-b.log")?];
        let mut held = Vec::new();
        for segment in &mut segments {
            let bytes = segment.read().map_err(|e| corrupt("cannot read the journal").because(e))?;
            held.extend(parse(&bytes));
        }
        held.sort_by_key(|segment| segment.epoch);
        let journal = Self { segments, size, active: 0, epoch: 0, frames: 0, offset: 0, frame: Vec::new() };
        Ok((journal, held))
    }

    /// Starts the epoch after `last`. The base must have everything before.
    pub(crate) fn begin(&mut self, last: u64) {
        (self.active, self.epoch, self.frames, self.offset) = (0, last + 1, 0, 0);
    }

    /// The current epoch.
    pub(crate) const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The largest batch that still fits into this epoch, in bytes.
    pub(crate) const fn left(&self) -> u64 {
        self.size.saturating_sub(self.offset + HEADER as u64)
    }

    /// Switches to the other segment, which must have been checkpointed.
    pub(crate) fn rotate(&mut self) {
        (self.active, self.epoch, self.frames, self.offset) = (1 - self.active, self.epoch + 1, 0, 0);
    }

    /// Makes a batch durable. After an error the journal must not be written again.
    pub(crate) fn append(&mut self, rows: &[u8]) -> io::Result<()> {
        self.frame.clear();
        self.frame.extend_from_slice(&(rows.len() as u32).to_le_bytes());
        self.frame.extend_from_slice(&[0; 4]);
        self.frame.extend_from_slice(&self.epoch.to_le_bytes());
        self.frame.extend_from_slice(&self.frames.to_le_bytes());
        self.frame.extend_from_slice(rows);
        let crc = crc32fast::hash(&self.frame[8..]);
        self.frame[4..8].copy_from_slice(&crc.to_le_bytes());
        let segment = &mut self.segments[self.active];
        segment.write(self.offset, &self.frame)?;
        if !broken(Break::AnswersUnsynced) {
            segment.sync()?;
        }
        self.offset += self.frame.len() as u64;
        self.frames += 1;
        Ok(())
    }
}

/// The batches of a segment up to the first invalid frame.
fn parse(mut bytes: &[u8]) -> Option<Segment> {
    let mut found: Option<Segment> = None;
    while let Some((header, rest)) = bytes.split_at_checked(HEADER) {
        let len = u32_at(header, 0) as usize;
        let (epoch, frame) = (u64_at(header, 8), u64_at(header, 16));
        let Some(rows) = rest.get(..len) else { break };
        let mut crc = crc32fast::Hasher::new();
        crc.update(&header[8..]);
        crc.update(rows);
        let expected = found.as_ref().map_or((epoch, 0), |s| (s.epoch, s.batches.len() as u64));
        if crc.finalize() != u32_at(header, 4) || epoch == 0 || (epoch, frame) != expected {
            break;
        }
        found.get_or_insert(Segment { epoch, batches: Vec::new() }).batches.push(rows.to_vec());
        bytes = &rest[len..];
    }
    found
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

/// Describes an I/O error, with the remedy where there is one.
pub(crate) fn describe_io_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("the disk is full ({error}); nothing is lost, free some space")
        }
        io::ErrorKind::PermissionDenied => format!("{error}; check the owner of the directory"),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::embedded::Directory;

    fn opened(directory: &tempfile::TempDir) -> (Journal, Vec<Segment>) {
        // Not of whole blocks, so that nothing clears what lies behind a frame.
        Journal::open(&Directory::new(directory.path()), 5_000).unwrap()
    }

    fn held(directory: &tempfile::TempDir) -> Vec<(u64, Vec<Vec<u8>>)> {
        opened(directory).1.into_iter().map(|s| (s.epoch, s.batches)).collect()
    }

    #[test]
    fn what_was_appended_comes_back_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, empty) = opened(&directory);
        assert!(empty.is_empty());
        journal.begin(6);
        journal.append(b"one").unwrap();
        journal.append(b"two").unwrap();
        journal.rotate();
        journal.append(b"three").unwrap();
        drop(journal);
        assert_eq!(
            held(&directory),
            [(7, vec![b"one".to_vec(), b"two".to_vec()]), (8, vec![b"three".to_vec()])]
        );
    }

    #[test]
    fn a_torn_frame_ends_its_segment() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = opened(&directory);
        journal.begin(0);
        journal.append(b"whole").unwrap();
        let torn_at = journal.offset + HEADER as u64 + 1;
        journal.append(b"torn").unwrap();
        journal.append(b"after").unwrap();
        journal.segments[0].write(torn_at, b"\0").unwrap();
        drop(journal);
        assert_eq!(held(&directory), [(1, vec![b"whole".to_vec()])]);
    }

    #[test]
    fn leftovers_of_an_earlier_turn_are_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = opened(&directory);
        journal.begin(0);
        for _ in 0..5 {
            journal.append(b"older").unwrap();
        }
        journal.rotate();
        journal.rotate();
        journal.append(b"newer").unwrap();
        drop(journal);
        assert_eq!(held(&directory), [(3, vec![b"newer".to_vec()])]);
    }
}

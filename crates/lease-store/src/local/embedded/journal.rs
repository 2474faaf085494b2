//! The journal: two alternating segments of framed batches.
//!
//! Each use of a segment has an epoch, which its frames carry: leftovers of an earlier epoch are never read. A torn frame
//! at the end of the last epoch was not acknowledged; [`super::recovery`] tells it from damage.

use std::io;

use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Error, Result};

use super::frames::{self, HEADER, PREAMBLE, Preamble};
use super::recovery::SEGMENTS;
use super::storage::{Storage, StorageFile};

/// Makes batches durable.
pub(crate) struct Journal {
    segments: [Box<dyn StorageFile>; 2],
    size: u64,
    active: usize,
    epoch: u64,
    preamble: Preamble,
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
    /// Opens the segments and returns their contents. Call [`Journal::begin`] before the first append.
    pub(crate) fn open(storage: &dyn Storage, size: u64) -> Result<(Self, [Vec<u8>; 2])> {
        let open = |name: &str| {
            storage.open(name, size).map_err(|e| {
                Error::unavailable("embedded", format!("cannot open {name}: {}", describe_io_error(&e)))
                    .because(e)
            })
        };
        let mut segments = [open(SEGMENTS[0])?, open(SEGMENTS[1])?];
        let mut read = |index: usize| {
            segments[index].read().map_err(|e| {
                let why = format!("cannot read {}: {}", SEGMENTS[index], describe_io_error(&e));
                Error::unavailable("embedded", why).because(e)
            })
        };
        let contents = [read(0)?, read(1)?];
        let (preamble, frame) = (Preamble::default(), Vec::new());
        Ok((Self { segments, size, active: 0, epoch: 0, preamble, frames: 0, offset: 0, frame }, contents))
    }

    /// Starts an epoch in a segment whose contents the base has, and makes its frame 0 durable.
    pub(crate) fn begin(&mut self, segment: usize, epoch: u64, preamble: Preamble) -> io::Result<()> {
        (self.active, self.epoch, self.preamble, self.frames, self.offset) = (segment, epoch, preamble, 0, 0);
        self.append(&[])
    }

    /// Writes again what was read from a segment, and syncs it. A frame whose sync failed is read after a restart of the
    /// process but may not be on the disk, and a second sync of it would succeed without writing it.
    pub(crate) fn rewrite(&mut self, segment: usize, bytes: &[u8]) -> io::Result<()> {
        self.segments[segment].write(0, bytes)?;
        self.segments[segment].sync()
    }

    /// The current epoch.
    pub(crate) const fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The largest batch that still fits into this epoch, in bytes.
    pub(crate) const fn left(&self) -> u64 {
        let preamble = if self.frames == 0 { PREAMBLE as u64 } else { 0 };
        self.size.saturating_sub(self.offset + HEADER as u64 + preamble)
    }

    /// Switches to the other segment, which must have been checkpointed. The checkpoint of the previous epoch must not
    /// begin before the next append: see [`super::recovery`].
    pub(crate) fn rotate(&mut self) {
        self.preamble.previous_frames = self.frames;
        (self.active, self.epoch, self.frames, self.offset) = (1 - self.active, self.epoch + 1, 0, 0);
    }

    /// Makes a batch durable. After an error the journal must not be written again.
    pub(crate) fn append(&mut self, rows: &[u8]) -> io::Result<()> {
        frames::encode(&mut self.frame, &self.preamble, self.epoch, self.frames, rows);
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

    const STORE: Preamble = Preamble { id: 7, opening: 1, previous_frames: 0 };

    fn opened(directory: &tempfile::TempDir) -> (Journal, [Vec<u8>; 2]) {
        // Not of whole blocks, so that nothing clears what lies behind a frame.
        Journal::open(&Directory::new(directory.path()), 5_000).unwrap()
    }

    /// The epochs of both segments, with their frames.
    fn held(directory: &tempfile::TempDir) -> Vec<(u64, u64, Vec<Vec<u8>>)> {
        let found = opened(directory).1.into_iter().filter_map(|bytes| frames::read(&bytes, STORE.id));
        found.map(|e| (e.epoch, e.preamble.previous_frames, e.batches)).collect()
    }

    #[test]
    fn what_was_appended_comes_back_with_the_count_of_the_epoch_before() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, empty) = opened(&directory);
        assert_eq!(empty, [vec![0; 5_000], vec![0; 5_000]]);
        journal.begin(1, 7, STORE).unwrap();
        journal.append(b"one").unwrap();
        journal.append(b"two").unwrap();
        journal.rotate();
        journal.append(b"three").unwrap();
        drop(journal);
        let rows = |rows: &[&[u8]]| rows.iter().map(|rows| rows.to_vec()).collect::<Vec<_>>();
        assert_eq!(held(&directory), [(8, 3, rows(&[b"three"])), (7, 0, rows(&[b"", b"one", b"two"]))]);
    }

    #[test]
    fn leftovers_of_an_earlier_epoch_are_not_read() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = opened(&directory);
        journal.begin(0, 1, STORE).unwrap();
        for _ in 0..5 {
            journal.append(b"older").unwrap();
        }
        journal.rotate();
        journal.rotate();
        journal.append(b"newer").unwrap();
        drop(journal);
        assert_eq!(held(&directory), [(3, 0, vec![b"newer".to_vec()])]);
    }

    #[test]
    fn the_largest_batch_that_fits_fills_the_segment() {
        let directory = tempfile::tempdir().unwrap();
        let (mut journal, _) = opened(&directory);
        journal.begin(0, 1, STORE).unwrap();
        journal.append(&vec![1; journal.left() as usize]).unwrap();
        assert_eq!((journal.offset, journal.left()), (5_000, 0));
        journal.rotate();
        journal.append(&vec![1; journal.left() as usize]).unwrap();
        assert_eq!(journal.offset, 5_000);
    }
}

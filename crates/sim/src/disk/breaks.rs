//! Known breaks of the embedded engine, put between it and the disk: each makes it behave as if one of its rules
//! were not there.

use std::io;
use std::sync::Arc;

use tenure_store::{Storage, StorageFile};

use super::simulated_disk::SimulatedDisk;

/// One way to be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Break {
    /// Answers before the journal is synced.
    AnswersBeforeSync,
    /// Goes on after a sync of the journal that failed.
    IgnoresFailedSync,
    /// Does not look at the checksums of the journal.
    TrustsTornFrames,
    /// Replays the segments of the journal in the wrong order.
    ReplaysInWrongOrder,
    /// Takes what an earlier turn left in a segment for its continuation.
    ReadsLeftovers,
    /// Renews without a sign of life on the disk.
    GivesNoSignOfLife,
    /// Reuses a segment before the base is synced.
    ForgetsToSyncTheBase,
    /// Opens a base that failed to sync as the system shows it.
    TrustsTheCache,
    /// Keeps lock-delays in memory alone.
    ForgetsDelays,
}

impl Break {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::AnswersBeforeSync,
        Self::IgnoresFailedSync,
        Self::TrustsTornFrames,
        Self::ReplaysInWrongOrder,
        Self::ReadsLeftovers,
        Self::GivesNoSignOfLife,
        Self::ForgetsToSyncTheBase,
        Self::TrustsTheCache,
        Self::ForgetsDelays,
    ];

    /// Whether this build can: what is not between the engine and its disk is a break of the kernel's own, which only
    /// the feature `breaks` has.
    pub const fn can_be_switched_on(self) -> bool {
        cfg!(feature = "breaks") || !matches!(self, Self::ForgetsDelays)
    }

    /// What is wrong, in words.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::AnswersBeforeSync => "answers before the journal is synced",
            Self::IgnoresFailedSync => "goes on after a sync that failed",
            Self::TrustsTornFrames => "does not check the journal's checksums",
            Self::ReplaysInWrongOrder => "replays the journal's segments in the wrong order",
            Self::ReadsLeftovers => "reads what an earlier turn left in a segment",
            Self::GivesNoSignOfLife => "renews without a sign of life on the disk",
            Self::ForgetsToSyncTheBase => "reuses a segment before the base is synced",
            Self::TrustsTheCache => "opens a base that failed to sync as the system shows it",
            Self::ForgetsDelays => "lock-delay in memory: a restart forgets it",
        }
    }
}

/// The disk as a broken engine uses it.
pub(crate) struct Bent {
    pub(crate) disk: SimulatedDisk,
    pub(crate) how: Break,
}

impl Storage for Bent {
    fn open(&self, name: &str, size: u64) -> io::Result<Box<dyn StorageFile>> {
        let mut inner = self.disk.open(name, size)?;
        let twin = match (self.how, name) {
            (Break::ReplaysInWrongOrder, "journal-a.log") => turn_of(&self.disk, "journal-b.log", size)?,
            (Break::ReplaysInWrongOrder, "journal-b.log") => turn_of(&self.disk, "journal-a.log", size)?,
            _ => None,
        };
        let first = inner.read()?;
        Ok(Box::new(BentFile { inner, how: self.how, twin, first, alive: name == "alive" }))
    }

    fn base(&self) -> io::Result<Box<dyn redb::StorageBackend>> {
        match self.how {
            Break::ForgetsToSyncTheBase => Ok(Box::new(Unsynced(self.disk.clone()))),
            Break::TrustsTheCache => self.disk.cached_base(),
            _ => self.disk.base(),
        }
    }
}

fn turn_of(disk: &SimulatedDisk, name: &str, size: u64) -> io::Result<Option<u64>> {
    Ok(frames(&disk.open(name, size)?.read()?).first().map(|frame| frame.turn))
}

struct BentFile {
    inner: Box<dyn StorageFile>,
    how: Break,
    twin: Option<u64>,
    first: Vec<u8>,
    alive: bool,
}

const HEADER: usize = 24;

struct Frame {
    at: usize,
    len: usize,
    turn: u64,
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// What lies one after the other in a segment, right or wrong.
fn frames(bytes: &[u8]) -> Vec<Frame> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(header) = bytes.get(at..at + HEADER) {
        let (len, turn) = (number(&header[..4]) as usize, number(&header[8..16]));
        if turn == 0 || at + HEADER + len > bytes.len() {
            break;
        }
        found.push(Frame { at, len, turn });
        at += HEADER + len;
    }
    found
}

fn stamp(bytes: &mut [u8], frame: &Frame, turn: u64, n: u64) {
    let end = frame.at + HEADER + frame.len;
    bytes[frame.at + 8..frame.at + 16].copy_from_slice(&turn.to_le_bytes());
    bytes[frame.at + 16..frame.at + 24].copy_from_slice(&n.to_le_bytes());
    // The checksum also covers the id of the store, with which the first frame begins.
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes[HEADER..HEADER + 8]);
    crc.update(&bytes[frame.at + 8..end]);
    let crc = crc.finalize();
    bytes[frame.at + 4..frame.at + 8].copy_from_slice(&crc.to_le_bytes());
}

impl StorageFile for BentFile {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut bytes = self.inner.read()?;
        if self.alive {
            // Without the mark of a failed sync, and so without a heartbeat.
            return Ok(if self.how == Break::TrustsTheCache { vec![0; bytes.len()] } else { bytes });
        }
        let found = frames(&bytes);
        let Some(first) = found.first().map(|frame| frame.turn) else { return Ok(bytes) };
        for (n, frame) in found.iter().enumerate() {
            match (self.how, self.twin) {
                (Break::TrustsTornFrames, _) if frame.turn == first => {
                    stamp(&mut bytes, frame, first, n as u64)
                }
                (Break::ReadsLeftovers, _) => stamp(&mut bytes, frame, first, n as u64),
                (Break::ReplaysInWrongOrder, Some(twin)) if frame.turn == first => {
                    stamp(&mut bytes, frame, twin, n as u64);
                }
                _ => {}
            }
        }
        Ok(bytes)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        match self.how {
            // Only a store's first word of itself gets through.
            Break::GivesNoSignOfLife if self.alive && self.first.iter().any(|byte| *byte != 0) => Ok(()),
            Break::GivesNoSignOfLife if self.alive => {
                self.first = bytes.to_vec();
                self.inner.write(at, bytes)
            }
            Break::IgnoresFailedSync => self.inner.write(at, bytes).or(Ok(())),
            _ => self.inner.write(at, bytes),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        match self.how {
            Break::AnswersBeforeSync => Ok(()),
            Break::IgnoresFailedSync => self.inner.sync().or(Ok(())),
            _ => self.inner.sync(),
        }
    }
}

#[derive(Debug)]
struct Unsynced(SimulatedDisk);

impl redb::StorageBackend for Unsynced {
    fn len(&self) -> io::Result<u64> {
        redb::StorageBackend::len(&self.0)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        redb::StorageBackend::read(&self.0, offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        redb::StorageBackend::set_len(&self.0, len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        redb::StorageBackend::write(&self.0, offset, data)
    }
}

/// Switches on what is broken in the engine itself, or nothing.
#[cfg(feature = "breaks")]
pub(crate) fn switch(how: Option<Break>) {
    let inside = how.filter(|how| *how == Break::ForgetsDelays);
    tenure_lease::breaks::set(inside.map(|_| tenure_lease::breaks::Break::DelayInMemory));
}

/// Without the feature nothing inside the engine can be broken.
#[cfg(not(feature = "breaks"))]
pub(crate) fn switch(_: Option<Break>) {}

/// The disk that an engine gets.
pub(crate) fn disk(disk: &SimulatedDisk, how: Option<Break>) -> Arc<dyn Storage> {
    match how {
        Some(how) => Arc::new(Bent { disk: disk.clone(), how }),
        None => Arc::new(disk.clone()),
    }
}

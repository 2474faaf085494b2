//! Saving what can be read of a damaged directory into a new one.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use tenure_lease::{Clock, Error, Result};

use super::base::{Base, Unsynced};
use super::frames::{self, Preamble};
use super::heartbeat::Heartbeat;
use super::journal::{Journal, Segment, describe_io_error};
use super::open::{UNSYNCED_IN_THIS_BOOT, boot_id, lock, random_id, unusable};
use super::recovery::{BaseState, SEGMENTS};
use super::storage::Directory;
use super::{load, row_check};
use crate::local::engine::Local;
use crate::local::rows::Table as RowTable;
use crate::local::table::Now;

/// The size of the segments of the new directory; opening it extends them.
const SEGMENT: u64 = 64 * 1_024;

/// What was saved, and what was not.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Salvaged {
    /// Keys with a lease, or with the generations of earlier ones.
    pub keys: usize,
    /// Records.
    pub records: usize,
    /// Log entries.
    pub log_entries: usize,
    /// What could not be read, one sentence each. Empty if nothing is missing.
    pub lost: Vec<String>,
}

impl Local {
    /// Writes what can be read of the store in the directory `from` to the directory `to`, which must be empty or not
    /// exist. The old directory is not changed, and no process may have it open. Leases that only unreadable parts knew
    /// are free in the new store: wait for the longest TTL before it is used.
    pub fn salvage(from: impl AsRef<Path>, to: impl AsRef<Path>, clock: &dyn Clock) -> Result<Salvaged> {
        let (from, to) = (from.as_ref(), to.as_ref());
        let _lock = lock_existing(from)?;
        create_empty(to)?;
        let mut salvaged = Salvaged::default();
        let base = copy_base(from, to, &mut salvaged.lost)?;
        let state = base.state()?;
        let frames = read_frames(from, state, &mut salvaged.lost);
        let applied = frames.last_key_value().map_or(0, |((epoch, _), _)| *epoch);
        let applied = applied.max(state.map_or(0, |state| state.applied));
        base.apply(&Segment { epoch: applied, batches: frames.into_values().collect() })?;
        let removed = row_check::remove_unreadable(&base, &mut salvaged.lost)?;
        let (mut journal, _) = Journal::open(&Directory::new(to), SEGMENT)?;
        let (id, opening) = (random_id(), 1);
        journal.begin(0, applied + 1, Preamble { id, opening, previous_frames: 0 }).map_err(unusable)?;
        base.record_opening(&BaseState { id, applied, openings: opening }, removed)?;
        // It can be opened.
        load::load(&base, None, Now::read(clock))?;
        let count = |table: RowTable| {
            let mut rows = 0;
            base.read(&[table.byte()], |_, _| {
                rows += 1;
                Ok(())
            })
            .map(|()| rows)
        };
        salvaged.keys = count(RowTable::Slot)?;
        salvaged.records = count(RowTable::Record)?;
        salvaged.log_entries = count(RowTable::LogEntry)?;
        Ok(salvaged)
    }
}

/// Locks a directory that exists, and refuses one whose base shows what is not on the disk.
fn lock_existing(from: &Path) -> Result<File> {
    if !from.is_dir() {
        let why = format!("{} is not a directory", from.display());
        return Err(Error::invalid("directory", why));
    }
    let lock = lock(&from.to_path_buf())?;
    let Ok(alive) = File::open(from.join("alive")) else { return Ok(lock) };
    let last = Heartbeat::new(Box::new(alive), &boot_id(None)?).last();
    match last.is_ok_and(|last| last.is_some_and(|last| last.base_unsynced)) {
        true => Err(Error::unavailable("embedded", UNSYNCED_IN_THIS_BOOT)),
        false => Ok(lock),
    }
}

fn create_empty(to: &Path) -> Result<()> {
    std::fs::create_dir_all(to).map_err(unusable)?;
    let mut entries = std::fs::read_dir(to).map_err(unusable)?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(Error::invalid("directory", format!("{} is not empty", to.display()))),
    }
}

/// A copy of the base, or an empty one if it cannot be read.
fn copy_base(from: &Path, to: &Path, lost: &mut Vec<String>) -> Result<Base> {
    let (source, target) = (from.join("base.redb"), to.join("base.redb"));
    let storage = Directory::new(to);
    let copied = match std::fs::copy(&source, &target) {
        Ok(0) => Err(String::from("it is empty")),
        Ok(_) => Base::open(&storage, &Unsynced::default())
            .and_then(|base| base.state().map(|state| (base, state)))
            .map_err(|error| error.to_string()),
        Err(error) => Err(describe_io_error(&error)),
    };
    match copied {
        Ok((base, Some(_))) => return Ok(base),
        Ok((_, None)) => lost.push("base.redb: it has no rows".into()),
        Err(why) => lost.push(format!("base.redb: it cannot be read: {why}")),
    }
    lost.push("everything that was only in base.redb: all that is older than the journal".into());
    let _ = std::fs::remove_file(&target);
    Base::open(&storage, &Unsynced::default())
}

/// The rows of every frame that the base has not seen, by epoch and number.
fn read_frames(
    from: &Path,
    base: Option<BaseState>,
    lost: &mut Vec<String>,
) -> BTreeMap<(u64, u64), Vec<u8>> {
    let applied = base.map_or(0, |base| base.applied);
    let mut segments = Vec::new();
    for name in SEGMENTS {
        match std::fs::read(from.join(name)) {
            Ok(bytes) => segments.push((name, bytes)),
            Err(error) => lost.push(format!("{name}: it cannot be read: {}", describe_io_error(&error))),
        }
    }
    let named = segments.iter().find_map(|(_, bytes)| frames::preamble(bytes).map(|preamble| preamble.id));
    let Some(id) = base.map(|base| base.id).or(named) else {
        lost.push("the journal: no segment begins with a frame that can be read".into());
        return BTreeMap::new();
    };
    let newest = segments
        .iter()
        .filter_map(|(_, bytes)| frames::frame_at(bytes, 0, id))
        .map(|frame| frame.epoch)
        .max();
    let live = applied + 1..=newest.unwrap_or(0).max(applied) + 2;
    let (mut found, mut counts) = (BTreeMap::new(), BTreeMap::new());
    for (name, bytes) in &segments {
        let (mut at, mut epoch) = (0, None);
        while let Some(frame) = frames::find(bytes, at, id, live.clone()) {
            if frame.at > at && epoch.is_none_or(|epoch| epoch == frame.epoch) {
                lost.push(format!("{name}: bytes {at} to {} cannot be read", frame.at));
            }
            if frame.number == 0
                && let Some(count) = frame.payload.get(16..24).and_then(|count| count.try_into().ok())
            {
                counts.insert(frame.epoch - 1, u64::from_le_bytes(count));
            }
            found.insert((frame.epoch, frame.number), frame.rows().to_vec());
            (at, epoch) = (frame.end(), Some(frame.epoch));
        }
    }
    list_missing(applied, &found, &counts, lost);
    found
}

/// Lists the epochs and frames that should be there and are not.
fn list_missing(
    applied: u64,
    found: &BTreeMap<(u64, u64), Vec<u8>>,
    counts: &BTreeMap<u64, u64>,
    lost: &mut Vec<String>,
) {
    let Some(((newest, _), _)) = found.last_key_value() else {
        lost.push(format!("the journal: nothing after epoch {applied} can be read"));
        return;
    };
    let oldest = found.first_key_value().map_or(*newest, |((epoch, _), _)| *epoch);
    if oldest > applied + 1 {
        lost.push(format!("the journal: epochs {} to {} are missing", applied + 1, oldest - 1));
    }
    for epoch in oldest..=*newest {
        let read = found.range((epoch, 0)..=(epoch, u64::MAX)).count() as u64;
        let last = found.range((epoch, 0)..=(epoch, u64::MAX)).next_back().map_or(0, |((_, n), _)| n + 1);
        let expected = counts.get(&epoch).copied().unwrap_or(last).max(last);
        if read < expected || read == 0 {
            lost.push(format!("the journal: epoch {epoch}: {read} of {expected} frames can be read"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_epochs_and_frames_are_listed() {
        let found = |frames: &[(u64, u64)]| frames.iter().map(|frame| (*frame, Vec::new())).collect();
        let list = |applied, frames: &[(u64, u64)], counts: &[(u64, u64)]| {
            let mut lost = Vec::new();
            list_missing(applied, &found(frames), &counts.iter().copied().collect(), &mut lost);
            lost.join("; ")
        };
        assert_eq!(list(4, &[(5, 0), (5, 1), (6, 0)], &[(5, 2)]), "");
        assert!(list(4, &[], &[]).contains("nothing after epoch 4"));
        assert!(list(4, &[(7, 0)], &[]).contains("epochs 5 to 6 are missing"));
        assert!(list(4, &[(5, 0), (5, 2)], &[]).contains("epoch 5: 2 of 3 frames"));
        assert!(list(4, &[(5, 0), (6, 0)], &[(5, 3)]).contains("epoch 5: 1 of 3 frames"));
        assert!(list(4, &[(5, 0), (7, 0)], &[(6, 3)]).contains("epoch 6: 0 of 3 frames"));
    }
}

//! What opening makes of a base and two segments: which epochs it replays, or why the directory is not complete.
//!
//! Two rules make a loss visible. Before the base drops an epoch from the journal, frame 0 of the next epoch is durable:
//! so a base that has epoch `n` comes with a journal that has epoch `n + 1`. And frame 0 says how many frames the epoch
//! before it has. Only the end of the last epoch may be torn: nothing after it was acknowledged.

use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Error, Result};

use super::frames::{self, Epoch};

/// The names of the segments.
pub(crate) const SEGMENTS: [&str; 2] = ["journal-a.log", "journal-b.log"];

/// What to do about a damaged directory.
const REMEDY: &str = "restore a backup, or save what can be read with: \
                      tenure doctor --store embedded:DIR --salvage NEWDIR";

/// What the base knows about the journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BaseState {
    /// The id of the store.
    pub(crate) id: u64,
    /// The last epoch that the base has.
    pub(crate) applied: u64,
    /// How often the store was opened.
    pub(crate) openings: u64,
}

/// The epochs that the base has not seen, oldest first, each with the index of its segment.
pub(crate) type Replay = Vec<(usize, Epoch)>;

/// Decides what to replay. Refuses a directory in which something acknowledged is missing.
pub(crate) fn plan(base: Option<BaseState>, segments: &[Vec<u8>; 2]) -> Result<Replay> {
    let Some(base) = base else { return check_new(segments).map(|()| Vec::new()) };
    let mut live: Replay = Vec::new();
    for (index, bytes) in segments.iter().enumerate() {
        let found = frames::read(bytes, base.id);
        let end = found.as_ref().map_or(0, |found| found.end);
        if !broken(Break::OpensDamaged) {
            check_end(index, bytes, end, &base)?;
        }
        live.extend(found.filter(|found| found.epoch > base.applied).map(|found| (index, found)));
    }
    live.sort_by_key(|(_, found)| found.epoch);
    if broken(Break::OpensDamaged) {
        return Ok(live);
    }
    check_epochs(&base, &live)?;
    check_openings(&base, &live)?;
    Ok(live)
}

/// A base without rows belongs to a directory in which nothing was ever acknowledged. Opening it for the first time may
/// have been interrupted after frame 0.
fn check_new(segments: &[Vec<u8>; 2]) -> Result<()> {
    const FIRST: usize = frames::HEADER + frames::PREAMBLE;
    let used = |bytes: &Vec<u8>| bytes.get(FIRST..).is_some_and(|rest| rest.iter().any(|byte| *byte != 0));
    match segments.iter().position(used) {
        None => Ok(()),
        Some(index) => Err(incomplete(format!(
            "base.redb is missing or empty, and {} is not: the rows before its first epoch are lost",
            SEGMENTS[index]
        ))),
    }
}

/// Frames after one that cannot be read were acknowledged after it, so it was acknowledged, too.
fn check_end(index: usize, bytes: &[u8], end: usize, base: &BaseState) -> Result<()> {
    let live = base.applied + 1..=base.applied + 2;
    let Some(later) = frames::find(bytes, end, base.id, live) else { return Ok(()) };
    Err(incomplete(format!(
        "{} is damaged at offset {end}: what is there cannot be read, and frame {} of epoch {} follows at offset {}",
        SEGMENTS[index], later.number, later.epoch, later.at
    )))
}

/// The epochs follow each other and the base without a gap.
fn check_epochs(base: &BaseState, live: &Replay) -> Result<()> {
    let Some((_, first)) = live.first() else {
        return Err(incomplete(format!(
            "base.redb has epoch {}, and neither {} nor {} has the next one: a journal file was lost or replaced",
            base.applied, SEGMENTS[0], SEGMENTS[1]
        )));
    };
    if first.epoch != base.applied + 1 {
        return Err(incomplete(format!(
            "base.redb ends with epoch {}, and the journal begins with epoch {}: base.redb is older than the journal, \
             or a journal file was lost",
            base.applied, first.epoch
        )));
    }
    for pair in live.windows(2) {
        let ((index, before), (_, after)) = (&pair[0], &pair[1]);
        if after.epoch != before.epoch + 1 {
            return Err(incomplete(format!("epoch {} follows epoch {}", after.epoch, before.epoch)));
        }
        let expected = after.preamble.previous_frames;
        if before.batches.len() as u64 != expected {
            return Err(incomplete(format!(
                "{} is damaged at offset {}: epoch {} has {expected} frames, and {} of them can be read",
                SEGMENTS[*index],
                before.end,
                before.epoch,
                before.batches.len()
            )));
        }
    }
    Ok(())
}

/// Every opening changes the base before the first call. Without that change there is only an empty frame 0.
fn check_openings(base: &BaseState, live: &Replay) -> Result<()> {
    for (at, (_, found)) in live.iter().enumerate() {
        let interrupted = at + 1 == live.len()
            && found.preamble.opening == base.openings + 1
            && found.batches.iter().all(Vec::is_empty);
        if found.preamble.opening > base.openings && !interrupted {
            return Err(incomplete(format!(
                "base.redb was opened {} times, and the journal {}: base.redb is older than the journal",
                base.openings, found.preamble.opening
            )));
        }
    }
    Ok(())
}

fn incomplete(why: String) -> Error {
    Error::unavailable(
        "embedded",
        format!("the directory is not opened, acknowledged changes are missing: {why}; {REMEDY}"),
    )
}

#[cfg(test)]
mod tests {
    use super::super::frames::{Preamble, encode};
    use super::*;

    const BASE: BaseState = BaseState { id: 7, applied: 4, openings: 2 };

    /// A segment of an epoch with these batches.
    fn segment(epoch: u64, opening: u64, previous_frames: u64, batches: &[&[u8]]) -> Vec<u8> {
        let (mut bytes, mut frame) = (Vec::new(), Vec::new());
        for (number, rows) in batches.iter().enumerate() {
            encode(&mut frame, &Preamble { id: 7, opening, previous_frames }, epoch, number as u64, rows);
            bytes.extend_from_slice(&frame);
        }
        bytes.resize(1_000, 0);
        bytes
    }

    fn epochs(base: Option<BaseState>, a: Vec<u8>, b: Vec<u8>) -> std::result::Result<Vec<u64>, String> {
        let planned = plan(base, &[a, b]).map_err(|error| error.to_string())?;
        Ok(planned.iter().map(|(_, found)| found.epoch).collect())
    }

    fn zeros() -> Vec<u8> {
        vec![0; 1_000]
    }

    #[test]
    fn epochs_that_the_base_has_not_seen_are_replayed_in_order() {
        let table = [
            (segment(5, 2, 9, &[b"", b"x"]), segment(4, 2, 1, &[b"", b"old"]), vec![5]),
            (segment(6, 2, 2, &[b"z"]), segment(5, 2, 9, &[b"", b"x"]), vec![5, 6]),
            (segment(5, 2, 9, &[b""]), zeros(), vec![5]),
            // An opening that was interrupted after its frame 0.
            (segment(5, 2, 9, &[b"", b"x"]), segment(6, 3, 2, &[b""]), vec![5, 6]),
        ];
        for (a, b, expected) in table {
            assert_eq!(epochs(Some(BASE), a, b), Ok(expected));
        }
    }

    #[test]
    fn a_new_directory_has_nothing_to_replay() {
        assert_eq!(epochs(None, zeros(), zeros()), Ok(vec![]));
        assert_eq!(epochs(None, segment(1, 1, 0, &[b""]), zeros()), Ok(vec![]));
    }

    #[test]
    fn whatever_is_missing_is_named() {
        let mut damaged = segment(5, 2, 9, &[b"", b"one", b"two"]);
        damaged[frames::HEADER + frames::PREAMBLE + 2] ^= 1;
        let mut beheaded = segment(6, 2, 2, &[b"one", b"two"]);
        beheaded[3] ^= 1;
        let whole = || segment(5, 2, 9, &[b"", b"x"]);
        let table = [
            (None, segment(1, 1, 0, &[b"", b"x"]), zeros(), "base.redb is missing or empty"),
            (Some(BASE), damaged, zeros(), "journal-a.log is damaged at offset 48"),
            (Some(BASE), whole(), beheaded, "journal-b.log is damaged at offset 0"),
            (Some(BASE), zeros(), segment(4, 2, 1, &[b"old"]), "neither journal-a.log nor journal-b.log"),
            (Some(BASE), zeros(), segment(6, 2, 2, &[b"x"]), "the journal begins with epoch 6"),
            (Some(BASE), segment(9, 2, 2, &[b"x"]), segment(8, 2, 1, &[b"x"]), "begins with epoch 8"),
            (Some(BASE), whole(), segment(6, 2, 3, &[b"x"]), "has 3 frames, and 2 of them can be read"),
            (Some(BASE), whole(), segment(6, 3, 2, &[b"", b"x"]), "base.redb is older than the journal"),
            (Some(BASE), segment(5, 3, 9, &[b"", b"x"]), zeros(), "base.redb is older than the journal"),
        ];
        for (base, a, b, expected) in table {
            let why = epochs(base, a, b).unwrap_err();
            assert!(why.contains(expected) && why.contains("--salvage"), "{why}");
        }
    }
}

//! What operators see of moves: the last moves and failovers, and the progress of a drain.
//!
//! The log `gc:moves` keeps the last [`limits::MOVES`] entries. The part that drove a move appends its entry once, when the
//! outcome is known: the former owner for a planned move, the global controller for a failover. The record `gc:drain:{mc}`
//! belongs to the controller that drains; others only read it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tenure_lease::{Error, Key, Op, Result, Store, Ttl};

use crate::limits;

/// Whether the former owner gave the meeting up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MoveKind {
    /// The former owner moved it.
    Move,
    /// It was taken from an owner that was lost.
    Failover,
}

/// Why a meeting changed its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MoveReason {
    /// Its controller drains.
    Drain,
    /// Its controller is too full.
    Overload,
    /// Enough participants could not reach its controller.
    Unreachable,
    /// It panicked.
    Panic,
    /// An operator asked for it.
    Operator,
    /// Its controller was lost.
    ControllerLost,
}

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MoveResult {
    /// The new owner runs the meeting.
    Completed,
    /// The former owner runs the meeting again.
    Aborted,
    /// No owner took the meeting.
    Failed,
}

/// A finished move or failover.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MoveEntry {
    /// The meeting.
    pub meeting_id: String,
    /// Whether it was planned.
    pub kind: MoveKind,
    /// Why.
    pub reason: MoveReason,
    /// How it ended.
    pub result: MoveResult,
    /// The former owner.
    pub from_mc: String,
    /// The new owner, or the last target that was tried.
    pub to_mc: Option<String>,
    /// The generation afterwards.
    pub generation: u64,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// How long it took.
    pub duration_ms: u64,
    /// How long the meeting accepted no changes.
    pub freeze_ms: Option<u64>,
}

/// The state of a drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DrainState {
    /// Meetings leave the controller.
    Draining,
    /// No meeting is left.
    Drained,
    /// It was cancelled, and the controller accepts meetings again.
    Cancelled,
}

/// The progress of a drain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DrainProgress {
    /// The controller.
    pub mc_id: String,
    /// Its state.
    pub state: DrainState,
    /// Why: a `DrainReason` in lower case, such as `maintenance`.
    pub reason: String,
    /// When it began, in milliseconds since 1970.
    pub started_ms: u64,
    /// When the controller closes what is left, in milliseconds since 1970.
    pub deadline_ms: u64,
    /// Meetings when it began.
    pub meetings: u32,
    /// Meetings that other controllers run now.
    pub migrated: u32,
    /// Meetings that were closed.
    pub closed: u32,
}

impl MoveEntry {
    /// The log of all entries.
    pub fn log() -> Result<Key> {
        Key::new("gc:moves")
    }

    /// The operation that appends this entry.
    pub fn append(&self) -> Result<Op> {
        Ok(Op::Append { log: Self::log()?, value: encode("move", self)?, max_len: limits::MOVES })
    }

    /// Reads the last entries, the newest first. Entries of an unknown form are skipped.
    pub async fn read_all(store: &dyn Store) -> Result<Vec<Self>> {
        let entries = store.read_log(&Self::log()?, 0, limits::MOVES).await?;
        Ok(entries.iter().rev().filter_map(|entry| serde_json::from_slice(&entry.value).ok()).collect())
    }
}

impl DrainProgress {
    /// The key of a controller's record.
    pub fn key(mc_id: &str) -> Result<Key> {
        Key::new(format!("gc:drain:{mc_id}"))
    }

    /// The operation that replaces the record. It expires after a day.
    pub fn put(&self) -> Result<Op> {
        let ttl = Some(Ttl::from_millis(limits::DRAIN_RECORD.as_millis() as u64)?);
        Ok(Op::Put { key: Self::key(&self.mc_id)?, value: encode("drain", self)?, ttl })
    }

    /// Reads a record; `None` if it is of an unknown form.
    pub fn read(value: &[u8]) -> Option<Self> {
        serde_json::from_slice(value).ok()
    }

    /// Meetings that neither moved nor were closed.
    pub const fn left(&self) -> u32 {
        self.meetings.saturating_sub(self.migrated).saturating_sub(self.closed)
    }
}

fn encode(what: &'static str, value: &impl Serialize) -> Result<Arc<[u8]>> {
    let json = serde_json::to_vec(value).map_err(|error| Error::invalid(what, error.to_string()))?;
    Ok(Arc::from(json))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_lease::Records as _;
    use tenure_store::Local;

    fn entry(number: u64) -> MoveEntry {
        MoveEntry {
            meeting_id: format!("m-{number}"),
            kind: MoveKind::Move,
            reason: MoveReason::Drain,
            result: MoveResult::Completed,
            from_mc: "mc-1".to_owned(),
            to_mc: Some("mc-2".to_owned()),
            generation: number,
            started_ms: number,
            duration_ms: 120,
            freeze_ms: Some(40),
        }
    }

    #[tokio::test]
    async fn the_last_moves_are_kept_the_newest_first() {
        let store = Local::memory();
        let most = limits::MOVES as u64;
        for number in 0..most + 5 {
            store.commit(&[entry(number).append().unwrap()]).await.unwrap();
        }
        let unknown =
            Op::Append { log: MoveEntry::log().unwrap(), value: (*b"?").into(), max_len: limits::MOVES };
        store.commit(&[unknown]).await.unwrap();
        let read = MoveEntry::read_all(&store).await.unwrap();
        assert_eq!(read.len(), limits::MOVES - 1);
        assert_eq!((&read[0], &read[1]), (&entry(most + 4), &entry(most + 3)));
    }

    #[test]
    fn the_progress_of_a_drain_counts_what_is_left() {
        let progress = DrainProgress {
            mc_id: "mc-1".to_owned(),
            state: DrainState::Draining,
            reason: "maintenance".to_owned(),
            started_ms: 1,
            deadline_ms: 60_001,
            meetings: 5,
            migrated: 2,
            closed: 1,
        };
        let Op::Put { key, value, .. } = progress.put().unwrap() else { panic!("not a put") };
        assert_eq!((key.as_str(), progress.left()), ("gc:drain:mc-1", 2));
        assert_eq!(DrainProgress::read(&value), Some(progress));
        assert_eq!(DrainProgress::read(b"{}"), None);
    }
}

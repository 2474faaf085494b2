//! The base: all rows as of the last checkpoint, in redb.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{ReadableDatabase, TableDefinition};
use tenure_lease::{Error, Result};

use super::journal::Segment;
use super::recovery::BaseState;
use super::storage::Storage;
use crate::local::rows::{self, RowOp, Table as RowTable, corrupt};

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");

/// Enough to keep the inner pages of the tree; rows themselves are read once, at open.
const CACHE: usize = 4 << 20;

/// The rows on disk.
pub(crate) struct Base {
    db: redb::Database,
    unsynced: Unsynced,
}

/// Whether a sync of the base has failed. The kernel may then treat unwritten pages as written, so nothing that is read
/// from the base can be trusted. Clones share it, and it outlives the base, which syncs once more when it is closed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unsynced(Arc<AtomicBool>);

impl Unsynced {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Describes an error of the base.
    fn describe(&self, error: redb::Error) -> Error {
        if self.is_set() { unsynced(error) } else { failed(error) }
    }
}

impl Base {
    /// Opens the base, or creates it.
    pub(crate) fn open(storage: &dyn Storage, unsynced: &Unsynced) -> Result<Self> {
        let backend = storage.base().map_err(|e| failed(e.into()))?;
        Self::on(backend, unsynced)
    }

    /// Opens the base of a store that has never written to its journal. A power failure may have interrupted the first
    /// opening, which leaves an empty file that redb refuses.
    pub(crate) fn open_first(storage: &dyn Storage, unsynced: &Unsynced) -> Result<Self> {
        let backend = storage.base().map_err(|e| failed(e.into()))?;
        let mut head = [0; 9];
        let begun = backend.len().map_err(|e| failed(e.into()))? >= head.len() as u64;
        if begun {
            backend.read(0, &mut head).map_err(|e| failed(e.into()))?;
            if head == [0; 9] {
                backend.set_len(0).map_err(|e| failed(e.into()))?;
            }
        }
        Self::on(backend, unsynced)
    }

    fn on(backend: Box<dyn redb::StorageBackend>, unsynced: &Unsynced) -> Result<Self> {
        let db = redb::Builder::new()
            .set_cache_size(CACHE)
            .create_with_backend(BoxedBackend(backend, unsynced.clone()))
            .map_err(|e| unsynced.describe(e.into()))?;
        Ok(Self { db, unsynced: unsynced.clone() })
    }

    /// Applies a segment's batches durably. Idempotent.
    pub(crate) fn apply(&self, segment: &Segment) -> Result<()> {
        self.write(segment, &[(APPLIED, segment.epoch)])
    }

    /// Applies the rows of an opening durably, and records what the base knows about the journal from then on.
    pub(crate) fn record_opening(&self, state: &BaseState, rows: Vec<u8>) -> Result<()> {
        let segment = Segment { epoch: state.applied, batches: vec![rows] };
        self.write(&segment, &[(APPLIED, state.applied), (ID, state.id), (OPENINGS, state.openings)])
    }

    fn write(&self, segment: &Segment, counters: &[(&[u8], u64)]) -> Result<()> {
        self.try_write(segment, counters).map_err(|error| self.unsynced.describe(error))
    }

    fn try_write(&self, segment: &Segment, counters: &[(&[u8], u64)]) -> Result<(), redb::Error> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(redb::Durability::Immediate)?;
        {
            let mut table = txn.open_table(ROWS)?;
            for (key, value) in latest(segment)? {
                match value {
                    Some(value) => drop(table.insert(key, value)?),
                    None => drop(table.remove(key)?),
                }
            }
            for (name, value) in counters {
                table.insert(own_key(name).as_slice(), value.to_be_bytes().as_slice())?;
            }
        }
        txn.commit()?;
        Ok(())
    }

    /// What the base knows about the journal; `None` before the first opening is complete.
    pub(crate) fn state(&self) -> Result<Option<BaseState>> {
        let (applied, id, openings) = (self.counter(APPLIED)?, self.counter(ID)?, self.counter(OPENINGS)?);
        match (applied, id, openings) {
            (Some(applied), Some(id), Some(openings)) => Ok(Some(BaseState { id, applied, openings })),
            (None, ..) => Ok(None),
            _ => Err(corrupt(
                "base.redb was written by an unreleased version of Tenure, which this one cannot read",
            )),
        }
    }

    fn counter(&self, name: &[u8]) -> Result<Option<u64>> {
        let mut counter = None;
        self.read(&own_key(name), |_, value| {
            counter = value.try_into().ok().map(u64::from_be_bytes);
            Ok(())
        })?;
        Ok(counter)
    }

    /// Reads every row whose key has this prefix.
    pub(crate) fn read(&self, prefix: &[u8], mut row: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let txn = self.db.begin_read().map_err(|e| failed(e.into()))?;
        let table = match txn.open_table(ROWS) {
            Ok(table) => table,
            Err(redb::TableError::TableDoesNotExist(_)) => return Ok(()),
            Err(e) => return Err(failed(e.into())),
        };
        for entry in table.range(prefix..).map_err(|e| failed(e.into()))? {
            let (key, value) = entry.map_err(|e| failed(e.into()))?;
            if !key.value().starts_with(prefix) {
                break;
            }
            row(key.value(), value.value())?;
        }
        Ok(())
    }
}

/// A row and its new value; `None` deletes it.
type Change<'a> = (&'a [u8], Option<&'a [u8]>);

/// The last operation on each row of a segment, in key order.
fn latest(segment: &Segment) -> Result<Vec<Change<'_>>, redb::Error> {
    let mut all = Vec::new();
    for op in segment.batches.iter().flat_map(|batch| rows::read(batch)) {
        all.push(match op.map_err(|e| redb::Error::Corrupted(e.to_string()))? {
            RowOp::Put { key, value } => (key, Some(value)),
            RowOp::Delete { key } => (key, None),
        });
    }
    // The sort keeps the order of equal keys, so the last operation is the first of its key.
    all.reverse();
    all.sort_by_key(|(key, _)| *key);
    all.dedup_by_key(|(key, _)| *key);
    Ok(all)
}

/// The counters of the base itself: the last epoch that it has, the id of the store, how often it was opened.
const APPLIED: &[u8] = b"applied";
const ID: &[u8] = b"id";
const OPENINGS: &[u8] = b"openings";

fn own_key(name: &[u8]) -> Vec<u8> {
    [&[RowTable::Own.byte()], name].concat()
}

/// After a failed sync the base on the disk is unknown, whatever the system shows of it.
fn unsynced(error: redb::Error) -> Error {
    let why = match &error {
        redb::Error::Io(io) => io.to_string(),
        other => other.to_string(),
    };
    let why = format!(
        "base.redb could not be synced ({why}), so what it has on the disk is unknown; the journal still has the \
         changes: reboot the machine and start the store again"
    );
    Error::unavailable("embedded", why).because(error)
}

fn failed(error: redb::Error) -> Error {
    let why = match &error {
        redb::Error::Io(io) => super::journal::describe_io_error(io),
        other => other.to_string(),
    };
    Error::unavailable("embedded", format!("cannot use the base: {why}")).because(error)
}

/// A boxed backend, because redb takes a sized one.
#[derive(Debug)]
struct BoxedBackend(Box<dyn redb::StorageBackend>, Unsynced);

impl redb::StorageBackend for BoxedBackend {
    fn len(&self) -> std::io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> std::io::Result<()> {
        self.0.sync_data().inspect_err(|_| self.1.0.store(true, Ordering::Release))
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> std::io::Result<()> {
        self.0.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_operation_on_a_row_wins_and_rows_are_sorted() {
        let batch = |ops: &[(&[u8], Option<u64>)]| {
            let mut rows = Vec::new();
            for (key, value) in ops {
                match value {
                    Some(value) => rows::put(&mut rows, RowTable::Own, &[key], value),
                    None => rows::delete(&mut rows, RowTable::Own, &[key]),
                }
            }
            rows
        };
        let batches = vec![
            batch(&[(b"c", Some(1)), (b"a", Some(2)), (b"c", Some(3))]),
            batch(&[(b"b", Some(4)), (b"a", None), (b"c", Some(5))]),
        ];
        let segment = Segment { epoch: 1, batches };
        let found: Vec<_> = latest(&segment).unwrap();
        let seen: Vec<_> = found
            .iter()
            .map(|(key, value)| (&key[1..], value.map(|value| rows::decode::<u64>(value).unwrap())))
            .collect();
        assert_eq!(seen, [(&b"a"[..], None), (b"b", Some(4)), (b"c", Some(5))]);
    }
}

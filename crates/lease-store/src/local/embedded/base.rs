//! The base: all rows as of the last checkpoint, in redb.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{ReadableDatabase, TableDefinition};
use tenure_lease::{Error, Result};

use super::journal::Segment;
use super::storage::Storage;
use crate::local::rows::{self, RowOp, Table as RowTable};

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");

/// Enough to keep the inner pages of the tree; rows themselves are read once, at open.
const CACHE: usize = 4 << 20;

/// The rows on disk.
pub(crate) struct Base {
    db: redb::Database,
    unsynced: Arc<AtomicBool>,
}

impl Base {
    /// Opens the base, or creates it.
    pub(crate) fn open(storage: &dyn Storage) -> Result<Self> {
        let backend = storage.base().map_err(|e| failed(e.into()))?;
        Self::on(backend)
    }

    /// Opens the base of a store that has never written to its journal. A power failure may have interrupted the first
    /// opening, which leaves an empty file that redb refuses.
    pub(crate) fn open_first(storage: &dyn Storage) -> Result<Self> {
        let backend = storage.base().map_err(|e| failed(e.into()))?;
        let mut head = [0; 9];
        let begun = backend.len().map_err(|e| failed(e.into()))? >= head.len() as u64;
        if begun {
            backend.read(0, &mut head).map_err(|e| failed(e.into()))?;
            if head == [0; 9] {
                backend.set_len(0).map_err(|e| failed(e.into()))?;
            }
        }
        Self::on(backend)
    }

    fn on(backend: Box<dyn redb::StorageBackend>) -> Result<Self> {
        let unsynced = Arc::new(AtomicBool::new(false));
        let db = redb::Builder::new()
            .set_cache_size(CACHE)
            .create_with_backend(BoxedBackend(backend, unsynced.clone()))
            .map_err(|e| failed(e.into()))?;
        Ok(Self { db, unsynced })
    }

    /// Whether a sync has failed. The kernel may then treat unwritten pages as written, so nothing that is read from the
    /// base can be trusted.
    pub(crate) fn unsynced(&self) -> bool {
        self.unsynced.load(Ordering::Acquire)
    }

    /// Applies a segment's batches durably. Idempotent.
    pub(crate) fn apply(&self, segment: &Segment) -> Result<()> {
        self.write(segment).map_err(failed)
    }

    fn write(&self, segment: &Segment) -> Result<(), redb::Error> {
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
            let key = applied_key();
            table.insert(key.as_slice(), segment.epoch.to_be_bytes().as_slice())?;
        }
        txn.commit()?;
        Ok(())
    }

    /// The last journal epoch that the base has.
    pub(crate) fn applied(&self) -> Result<u64> {
        let mut epoch = 0;
        self.read(&applied_key(), |_, value| {
            if let Ok(bytes) = value.try_into() {
                epoch = u64::from_be_bytes(bytes);
            }
            Ok(())
        })?;
        Ok(epoch)
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

fn applied_key() -> Vec<u8> {
    let mut key = vec![RowTable::Own.byte()];
    key.extend_from_slice(b"applied");
    key
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
struct BoxedBackend(Box<dyn redb::StorageBackend>, Arc<AtomicBool>);

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
        self.0.sync_data().inspect_err(|_| self.1.store(true, Ordering::Release))
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

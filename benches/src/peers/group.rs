//! Plain redb: one writer, a batch of rows per commit, each commit durable.

use std::path::Path;

use anyhow::Result;
use redb::{Database, Durability, TableDefinition};

use crate::clock::Until;

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
/// The number of rows of 128 callers: one per key and its last 32 reigns.
const KEYS: u64 = 128 * 33;
/// About the size of the row of a lease.
const VALUE: [u8; 96] = [7; 96];

/// A database in a temporary directory.
pub(crate) struct Group {
    db: Database,
    next: u64,
}

impl Group {
    pub(crate) fn create(folder: &Path) -> Result<Self> {
        Ok(Self { db: Database::create(folder.join("group.redb"))?, next: 0 })
    }

    /// Writes rows until the slice is over, `batch` per commit.
    pub(crate) fn rows(&mut self, batch: u64, until: Until) -> Result<u64> {
        let mut done = 0;
        while !until.over() {
            let mut txn = self.db.begin_write()?;
            txn.set_durability(Durability::Immediate)?;
            {
                let mut table = txn.open_table(ROWS)?;
                for _ in 0..batch {
                    self.next += 1;
                    let key = format!("cycle/{:08}", self.next % KEYS);
                    table.insert(key.as_bytes(), VALUE.as_slice())?;
                }
            }
            txn.commit()?;
            done += batch;
        }
        Ok(done)
    }
}

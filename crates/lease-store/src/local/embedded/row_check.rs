//! Which rows of a salvaged base a store could load.

use tenure_lease::{Key, Result, Tick};

use super::base::Base;
use crate::local::rows::{self, MarkRow, RecordRow, ReignRow, SlotRow, Table as RowTable};

/// Row operations that remove what a store could not load, and what that is.
pub(crate) fn remove_unreadable(base: &Base, lost: &mut Vec<String>) -> Result<Vec<u8>> {
    let mut removed = Vec::new();
    for table in [
        RowTable::Slot,
        RowTable::Reign,
        RowTable::Record,
        RowTable::HighWaterMark,
        RowTable::Tombstone,
        RowTable::SpentToken,
    ] {
        base.read(&[table.byte()], |key, value| {
            if let Err(error) = check(table, &key[1..], value) {
                lost.push(format!("{table:?} {:?}: {error}", String::from_utf8_lossy(&key[1..])));
                rows::delete(&mut removed, table, &[&key[1..]]);
            }
            Ok(())
        })?;
    }
    remove_broken_logs(base, &mut removed, lost)?;
    Ok(removed)
}

/// Whether a store could load a row.
fn check(table: RowTable, key: &[u8], value: &[u8]) -> Result<()> {
    match table {
        RowTable::Slot => rows::plain(key).and(rows::decode::<SlotRow<'_>>(value)?.load()).map(drop),
        RowTable::Reign => {
            rows::numbered(key).and(rows::decode::<ReignRow<'_>>(value)?.load(Tick::default())).map(drop)
        }
        RowTable::Record => {
            let row: RecordRow<'_> = rows::decode(value)?;
            rows::plain(key).and(rows::checked_counter(row.revision, "a revision")).map(drop)
        }
        RowTable::HighWaterMark => rows::plain(key).and(rows::decode::<MarkRow>(value)?.load()).map(drop),
        RowTable::Tombstone | RowTable::SpentToken => {
            rows::with_token(key).and(rows::decode::<u64>(value)).map(drop)
        }
        RowTable::LogEntry => rows::numbered(key).and(rows::decode::<&[u8]>(value)).map(drop),
        RowTable::Own => Ok(()),
    }
}

/// A log loses entries from its front only, so all before a gap are removed.
fn remove_broken_logs(base: &Base, removed: &mut Vec<u8>, lost: &mut Vec<String>) -> Result<()> {
    let table = RowTable::LogEntry;
    let mut run: Option<(Key, u64, Vec<Vec<u8>>)> = None;
    base.read(&[table.byte()], |key, value| {
        let key = &key[1..];
        let entry = match check(table, key, value).and_then(|()| rows::numbered(key)) {
            Ok(entry) => entry,
            Err(error) => {
                lost.push(format!("a log entry {:?}: {error}", String::from_utf8_lossy(key)));
                rows::delete(removed, table, &[key]);
                return Ok(());
            }
        };
        let (log, number) = entry;
        match &mut run {
            Some((same, last, entries)) if *same == log => {
                if number != *last + 1 {
                    lost.push(format!("log {log}: entries up to {}, because {} is missing", last, *last + 1));
                    entries.drain(..).for_each(|old| rows::delete(removed, table, &[&old]));
                }
                *last = number;
                entries.push(key.to_vec());
            }
            _ => run = Some((log, number, vec![key.to_vec()])),
        }
        Ok(())
    })
}

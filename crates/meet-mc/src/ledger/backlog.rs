//! Queued writes: the last value of each record, and log entries in order.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_lease::{Key, Op};

use crate::meeting::limits;

/// Operations in one commit, beside those of the fence.
pub(super) const MAX_OPS: usize = 56;
/// Operations that may be queued.
pub(super) const MAX_QUEUED: usize = 4_096;
/// Bytes of values in one commit; half of what the engines take. A single larger value is a commit of its own.
pub(super) const MAX_BYTES: usize = 2 << 20;

#[derive(Clone, Default, Debug)]
pub(super) struct Backlog {
    /// `None` deletes the record.
    records: BTreeMap<Key, Option<Arc<[u8]>>>,
    entries: Vec<Arc<[u8]>>,
}

impl Backlog {
    pub(super) fn put(&mut self, key: Key, value: Arc<[u8]>) {
        self.records.insert(key, Some(value));
    }

    pub(super) fn delete(&mut self, key: Key) {
        self.records.insert(key, None);
    }

    pub(super) fn append(&mut self, entry: Arc<[u8]>) {
        self.entries.push(entry);
    }

    pub(super) fn extend(&mut self, later: Self) {
        self.records.extend(later.records);
        self.entries.extend(later.entries);
    }

    pub(super) fn len(&self) -> usize {
        self.records.len() + self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of log entries.
    pub(super) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of all values.
    pub(super) fn bytes(&self) -> usize {
        let records = self.records.values().flatten();
        records.chain(&self.entries).map(|value| value.len()).sum()
    }

    /// Whether this is more than one commit takes.
    pub(super) fn exceeds_commit(&self) -> bool {
        self.len() > MAX_OPS || self.bytes() > MAX_BYTES
    }

    /// As much as fits into one commit. Entries come first, so that records are not ahead of the log for long.
    pub(super) fn next_batch(&self) -> Option<Self> {
        if self.is_empty() {
            return None;
        }
        let mut room = MAX_BYTES;
        // The first value always fits.
        let mut fits = |value: &[u8], first: bool| {
            let fits = first || value.len() <= room;
            room = room.saturating_sub(value.len());
            fits
        };
        let mut batch = Self::default();
        for entry in self.entries.iter().take(MAX_OPS / 2) {
            if !fits(entry, batch.is_empty()) {
                return Some(batch);
            }
            batch.append(entry.clone());
        }
        for (key, value) in self.records.iter().take(MAX_OPS - batch.len()) {
            if !fits(value.as_deref().unwrap_or_default(), batch.is_empty()) {
                break;
            }
            batch.records.insert(key.clone(), value.clone());
        }
        Some(batch)
    }

    /// Removes a persisted batch. A record that changed since stays queued.
    pub(super) fn remove(&mut self, batch: &Self) {
        self.entries.drain(..batch.entries.len());
        self.records.retain(|key, value| batch.records.get(key) != Some(value));
    }

    pub(super) fn ops(&self, log: &Key) -> Vec<Op> {
        let records = self.records.iter().map(|(key, value)| match value {
            Some(value) => Op::Put { key: key.clone(), value: value.clone(), ttl: None },
            None => Op::Delete { key: key.clone() },
        });
        let entries = self.entries.iter().map(|entry| Op::Append {
            log: log.clone(),
            value: entry.clone(),
            max_len: limits::EVENTS,
        });
        records.chain(entries).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(number: usize) -> Arc<[u8]> {
        Arc::from(number.to_string().into_bytes())
    }

    #[test]
    fn batches_are_bounded_ordered_and_complete() {
        let mut backlog = Backlog::default();
        for number in 0..100 {
            backlog.put(Key::new(format!("r{}", number % 70)).unwrap(), value(number));
            backlog.append(value(number));
        }
        assert_eq!(backlog.len(), 170, "only the last value of a record");
        let mut entries = Vec::new();
        while let Some(batch) = backlog.next_batch() {
            assert!(batch.len() <= MAX_OPS);
            entries.extend(batch.entries.clone());
            backlog.remove(&batch);
        }
        assert_eq!(entries, (0..100).map(value).collect::<Vec<_>>());
    }

    #[test]
    fn batches_are_bounded_by_bytes_and_every_value_is_written() {
        let mut backlog = Backlog::default();
        let large = |bytes: usize| Arc::<[u8]>::from(vec![7; bytes]);
        for number in 0..40 {
            backlog.put(Key::new(format!("r{number}")).unwrap(), large(200_000));
        }
        backlog.put(Key::new("huge").unwrap(), large(MAX_BYTES + 1));
        let (mut batches, mut records) = (0, 0);
        while let Some(batch) = backlog.next_batch() {
            assert!(batch.bytes() <= MAX_BYTES || batch.len() == 1, "{} bytes", batch.bytes());
            (batches, records) = (batches + 1, records + batch.len());
            backlog.remove(&batch);
        }
        assert_eq!((records, batches), (41, 5));
    }

    #[test]
    fn a_record_that_changed_during_a_commit_stays_queued() {
        let mut backlog = Backlog::default();
        let key = Key::new("r").unwrap();
        backlog.put(key.clone(), value(1));
        let batch = backlog.next_batch().unwrap();
        backlog.put(key.clone(), value(2));
        backlog.append(value(3));
        backlog.remove(&batch);
        assert_eq!(backlog.len(), 2);
        backlog.delete(key);
        assert_eq!(backlog.len(), 2, "a delete replaces the value");
    }
}

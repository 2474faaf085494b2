//! What waits to be written: the last value of each record, and entries of the log in their order.

use std::collections::BTreeMap;
use std::sync::Arc;

use lease::{Key, Op};

use crate::meeting::limits;

/// Most operations in one step, beside the fence's own.
pub(super) const STEP: usize = 56;
/// Most that may wait.
pub(super) const MOST: usize = 4_096;

#[derive(Clone, Default, Debug)]
pub(super) struct Backlog {
    /// None is a delete.
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

    /// As much of it as fits into one step: entries first, so that no record is ahead of the log for long.
    pub(super) fn step(&self) -> Option<Self> {
        if self.is_empty() {
            return None;
        }
        let entries: Vec<_> = self.entries.iter().take(STEP / 2).cloned().collect();
        let room = STEP - entries.len();
        let records = self.records.iter().take(room).map(|(key, value)| (key.clone(), value.clone()));
        Some(Self { records: records.collect(), entries })
    }

    /// Forgets a step that was written. A record that was changed since stays.
    pub(super) fn done(&mut self, step: &Self) {
        self.entries.drain(..step.entries.len());
        self.records.retain(|key, value| step.records.get(key) != Some(value));
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
    fn steps_are_bounded_keep_the_order_and_leave_nothing() {
        let mut backlog = Backlog::default();
        for number in 0..100 {
            backlog.put(Key::new(format!("r{}", number % 70)).unwrap(), value(number));
            backlog.append(value(number));
        }
        assert_eq!(backlog.len(), 170, "only the last value of a record");
        let mut entries = Vec::new();
        while let Some(step) = backlog.step() {
            assert!(step.len() <= STEP);
            entries.extend(step.entries.clone());
            backlog.done(&step);
        }
        assert_eq!(entries, (0..100).map(value).collect::<Vec<_>>());
    }

    #[test]
    fn what_changed_while_a_step_was_written_stays() {
        let mut backlog = Backlog::default();
        let key = Key::new("r").unwrap();
        backlog.put(key.clone(), value(1));
        let step = backlog.step().unwrap();
        backlog.put(key.clone(), value(2));
        backlog.append(value(3));
        backlog.done(&step);
        assert_eq!(backlog.len(), 2);
        backlog.delete(key);
        assert_eq!(backlog.len(), 2, "a delete takes the place of the value");
    }
}

//! Records, logs and high-water marks.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tenure_lease::{
    Committed, HighWaterMark, Key, LogEntry, Op, Page, Query, Record, Refusal, Result, Revision, Tick, Ttl,
};

/// The most keys with a high-water mark. A mark is kept as long as the past of its key: without it, a writer of an older
/// generation could write again.
const MARKS: usize = 1_000_000;

/// All data besides the leases.
#[derive(Debug, Default)]
pub(crate) struct Data {
    pub(crate) records: BTreeMap<Key, Stored>,
    pub(crate) logs: BTreeMap<Key, Log>,
    pub(crate) marks: BTreeMap<Key, HighWaterMark>,
    /// The revision that last deleted a record.
    pub(crate) deleted: Revision,
    timers: BinaryHeap<Reverse<(Tick, Key)>>,
}

/// A stored record.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) value: Arc<[u8]>,
    pub(crate) revision: Revision,
    pub(crate) expires: Option<Tick>,
}

/// The entries that a log still keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    pub(crate) last: u64,
    pub(crate) entries: VecDeque<Arc<[u8]>>,
}

impl Stored {
    fn alive(&self, now: Tick) -> bool {
        self.expires.is_none_or(|at| now < at)
    }

    fn record(&self, key: &Key, now: Tick) -> Record {
        Record {
            key: key.clone(),
            value: self.value.clone(),
            revision: self.revision,
            remaining: self.expires.map(|at| at.since(now)),
        }
    }
}

impl Data {
    pub(crate) fn find(&self, key: &Key, now: Tick) -> Option<&Stored> {
        self.records.get(key).filter(|stored| stored.alive(now))
    }

    pub(crate) fn get(&self, key: &Key, now: Tick) -> Option<Record> {
        self.find(key, now).map(|stored| stored.record(key, now))
    }

    pub(crate) fn scan(&self, query: &Query, revision: Revision, now: Tick) -> Page<Record> {
        let start = match &query.after {
            Some(after) if after.as_str() >= query.prefix.as_str() => Bound::Excluded(after.as_str()),
            _ => Bound::Included(query.prefix.as_str()),
        };
        let mut items: Vec<_> = self
            .records
            .range::<str, _>((start, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(&query.prefix))
            .filter(|(_, stored)| stored.alive(now))
            .take(query.limit + 1)
            .map(|(key, stored)| stored.record(key, now))
            .collect();
        let more = items.len() > query.limit;
        items.truncate(query.limit);
        let next = more.then(|| items.last().map(|record| record.key.clone())).flatten();
        Page { items, next, revision }
    }

    pub(crate) fn read_log(&self, log: &Key, after: u64, limit: usize) -> Vec<LogEntry> {
        let Some(log) = self.logs.get(log) else { return Vec::new() };
        let first = log.last - log.entries.len() as u64 + 1;
        let skip = after.saturating_add(1).saturating_sub(first) as usize;
        let entry =
            |(i, value): (usize, &Arc<[u8]>)| LogEntry { seq: first + i as u64, value: value.clone() };
        log.entries.iter().enumerate().skip(skip).take(limit).map(entry).collect()
    }

    /// The first operation whose condition does not hold.
    pub(crate) fn conflict(&self, ops: &[Op], now: Tick) -> Option<Committed> {
        ops.iter().enumerate().find_map(|(index, op)| {
            let found = self.find(op.key(), now).map(|stored| stored.revision);
            let holds = match op {
                Op::PutIfAbsent { .. } => found.is_none(),
                Op::PutIfRevision { revision, .. } => found == Some(*revision),
                Op::Put { .. } | Op::Delete { .. } | Op::Append { .. } => true,
            };
            (!holds).then_some(Committed::Conflict { index, found })
        })
    }

    /// Refuses a fence on one key more than may have a mark.
    pub(crate) fn check_marks(&self, key: &Key) -> Result<()> {
        match self.marks.len() < MARKS || self.marks.contains_key(key) {
            true => Ok(()),
            false => Err(Refusal::TooMany { what: "keys with fenced writes", limit: MARKS }.into()),
        }
    }

    pub(crate) fn put(
        &mut self,
        key: &Key,
        value: &Arc<[u8]>,
        ttl: Option<Ttl>,
        revision: Revision,
        now: Tick,
    ) {
        let expires = ttl.map(|ttl| now + ttl.as_duration());
        self.insert(key.clone(), Stored { value: value.clone(), revision, expires });
    }

    pub(crate) fn insert(&mut self, key: Key, stored: Stored) {
        if let Some(at) = stored.expires {
            self.timers.push(Reverse((at, key.clone())));
        }
        self.records.insert(key, stored);
    }

    /// Appends and says which entry numbers were dropped.
    pub(crate) fn append(
        &mut self,
        key: &Key,
        value: &Arc<[u8]>,
        max_len: usize,
    ) -> (u64, std::ops::Range<u64>) {
        let log = self.logs.entry(key.clone()).or_default();
        log.entries.push_back(value.clone());
        log.last += 1;
        let excess = log.entries.len().saturating_sub(max_len);
        let first = log.last + 1 - log.entries.len() as u64;
        log.entries.drain(..excess);
        (log.last, first..first + excess as u64)
    }

    /// The next record whose TTL has run out at `now`, removed.
    pub(crate) fn due(&mut self, now: Tick) -> Option<Key> {
        loop {
            let Reverse((at, _)) = self.timers.peek()?;
            if *at > now {
                return None;
            }
            let Reverse((_, key)) = self.timers.pop()?;
            if self.records.get(&key).is_some_and(|stored| !stored.alive(now)) {
                self.records.remove(&key);
                return Some(key);
            }
        }
    }

    pub(crate) fn next_due(&self) -> Option<Tick> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_keys_with_a_mark_is_bounded() {
        let mut data = Data::default();
        let key = |n: usize| Key::new(format!("k/{n}")).unwrap();
        let mark = HighWaterMark::from_parts(tenure_lease::Generation::new(1).unwrap(), [0; 16]);
        data.marks.extend((1..MARKS).map(|n| (key(n), mark)));
        data.check_marks(&key(0)).unwrap();
        data.marks.insert(key(0), mark);
        data.check_marks(&key(1)).unwrap();
        assert!(matches!(data.check_marks(&key(MARKS)), Err(tenure_lease::Error::Refused(_))));
    }
}

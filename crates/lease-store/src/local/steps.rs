//! The table's steps on records, and its listings.

use tenure_lease::breaks::{Break, broken};
use tenure_lease::rules;
use tenure_lease::{
    Committed, Digest, Fence, HighWaterMark, Key, Mode, Op, Page, Phase, Query, Refusal, Result, Status, Verb,
};

use super::rows::{MarkRow, RecordRow, Table as RowTable};
use super::table::{Now, Table};

impl Table {
    /// Performs all operations or none.
    pub(crate) fn commit(&mut self, ops: &[Op], fence: Option<&Fence>, now: Now) -> Result<Committed> {
        if let Some(fence) = fence {
            let entry = self.slots.entry_of(&fence.key).unwrap_or_default();
            let mark = self.data.marks.get(&fence.key);
            let reigned = self.slots.get(&fence.key).is_some_and(|slot| slot.reigned(fence));
            if let Err(current) = rules::fence(&entry, fence, reigned, mark, now.tick) {
                // Refused under its own generation: two writers have the same number.
                if fence.mode == Mode::Monotonic && current == Some(fence.generation) {
                    metrics::counter!("tenure_lease_duplicate_generation_total").increment(1);
                }
                return Ok(Committed::FencedOut { current });
            }
        }
        for op in ops {
            let leased =
                self.slots.entry_of(op.key()).is_some_and(|entry| entry.phase(now.tick).0 != Phase::Free);
            if leased && !matches!(op, Op::Append { .. }) {
                return Err(Refusal::KeyIsLeased { key: op.key().to_string() }.into());
            }
        }
        if let Some(conflict) = self.data.conflict(ops, now.tick)
            && !broken(Break::ConflictIsWritten)
        {
            return Ok(conflict);
        }
        if let Some(fence) = fence {
            self.data.check_marks(&fence.key)?;
        }
        // A strict write raises the mark, too: an older monotonic write must not land after it.
        if let Some(fence) = fence
            && let next = HighWaterMark::new(fence.generation, fence.token.digest())
            && let Some(mark) = HighWaterMark::raised(self.data.marks.get(&fence.key), next)
        {
            self.effects.put(RowTable::HighWaterMark, &[fence.key.as_str().as_bytes()], &MarkRow::of(&mark));
            self.data.marks.insert(fence.key.clone(), mark);
        }
        // All records of a commit have its last revision; its events count up to it.
        let mut at = self.revision;
        let events = ops.iter().filter(|op| self.has_event(op)).count();
        (0..events.max(1)).for_each(|_| self.revision = self.revision.next());
        let revision = self.revision;
        if events == 0 {
            self.effects.silent = Some(revision);
        }
        for op in ops {
            if let Some(verb) = self.apply(op, now) {
                at = at.next();
                self.effects.record_event(at, now.wall, op.key(), verb);
            }
        }
        for op in ops.iter().filter(|op| matches!(op, Op::Delete { .. })) {
            self.grant_after_record(op.key(), now)?;
        }
        Ok(Committed::Written { revision })
    }

    /// Whether an operation has an event: appends and deletions of absent records have none.
    fn has_event(&self, op: &Op) -> bool {
        match op {
            Op::Put { .. } | Op::PutIfAbsent { .. } | Op::PutIfRevision { .. } => true,
            Op::Delete { key } => self.data.records.contains_key(key),
            Op::Append { .. } => false,
        }
    }

    /// Performs an operation and returns its event, if any.
    fn apply(&mut self, op: &Op, now: Now) -> Option<Verb> {
        match op {
            Op::Put { key, value, ttl }
            | Op::PutIfAbsent { key, value, ttl }
            | Op::PutIfRevision { key, value, ttl, .. } => {
                self.data.put(key, value, *ttl, self.revision, now.tick);
                let ttl_ms = ttl.map(|ttl| ttl.as_millis());
                let row = RecordRow {
                    value,
                    revision: self.revision.get(),
                    ttl_ms,
                    expires: ttl_ms.map(|ms| now.wall.as_millis() + ms),
                };
                self.effects.put(RowTable::Record, &[key.as_str().as_bytes()], &row);
                Some(Verb::Written)
            }
            Op::Delete { key } => {
                self.data.records.remove(key)?;
                self.data.deleted = self.revision;
                self.effects.delete(RowTable::Record, &[key.as_str().as_bytes()]);
                Some(Verb::Deleted)
            }
            Op::Append { log, value, max_len } => {
                let (seq, dropped) = self.data.append(log, value, *max_len);
                let name = log.as_str().as_bytes();
                self.effects.put(RowTable::LogEntry, &[name, &[0], &seq.to_be_bytes()], &&**value);
                for old in dropped {
                    self.effects.delete(RowTable::LogEntry, &[name, &[0], &old.to_be_bytes()]);
                }
                None
            }
        }
    }

    /// One page of the keys that are not free.
    pub(crate) fn list(&self, query: &Query, now: Now) -> Page<Status> {
        let from = match &query.after {
            Some(after) if after.as_str() >= query.prefix.as_str() => after.as_str(),
            _ => query.prefix.as_str(),
        };
        let mut items: Vec<Status> = self
            .slots
            .ordered(from)
            .filter_map(|at| self.slots.at(at).map(|slot| (at, slot)))
            .skip_while(|(_, slot)| query.after.as_ref() == Some(&slot.key))
            .take_while(|(_, slot)| slot.key.starts_with(&query.prefix))
            .filter_map(|(at, _)| self.status_at(at, now))
            .filter(|status| status.phase != Phase::Free)
            .take(query.limit + 1)
            .collect();
        let more = items.len() > query.limit;
        items.truncate(query.limit);
        let next = more.then(|| items.last().map(|status| status.key.clone())).flatten();
        Page { items, next, revision: self.revision }
    }

    /// Drops every parked claim after the engine stopped granting.
    pub(crate) fn clear_queues(&mut self) {
        let all: Vec<u32> = self.slots.ordered("").collect();
        for at in all {
            if let Some(slot) = self.slots.at_mut(at).filter(|slot| slot.waiters() > 0) {
                slot.details_mut().queue = Default::default();
            }
        }
    }

    /// Removes a claim from the queue if no caller waits for it.
    pub(crate) fn leave(&mut self, key: &Key, digest: &Digest) -> Result<()> {
        let Some(at) = self.slots.find(key) else { return Ok(()) };
        let slot = self.slot(at)?;
        if slot.details().is_some() {
            slot.details_mut().queue.remove_abandoned(digest);
        }
        self.forget_if_never_granted(at);
        Ok(())
    }
}

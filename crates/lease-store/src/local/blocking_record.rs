//! Keys that have a record: they are not granted, and claims wait until the record is deleted.

use std::time::Duration;

use tenure_lease::{Busy, Holder, Key, Result, limits};

use super::table::{Now, Table};

/// A record that keeps a key from being granted.
#[derive(Debug)]
pub(crate) struct BlockingRecord {
    holder: Holder,
    /// The remaining TTL; `None` when it has none.
    remaining: Option<Duration>,
}

impl BlockingRecord {
    /// Describes the record in the answer to a claim.
    pub(crate) fn describe(busy: Busy, record: Self) -> Busy {
        Busy { holder: Some(record.holder), remaining: record.remaining, ..busy }
    }
}

impl Table {
    /// The record of a key.
    pub(crate) fn blocking_record(&self, key: &Key, now: Now) -> Option<BlockingRecord> {
        let stored = self.data.find(key, now.tick)?;
        let remaining = stored.expires.map(|at| at.since(now.tick));
        Some(BlockingRecord { holder: holder(&stored.value), remaining })
    }

    /// Whether parked claims have to wait for a record to be deleted.
    pub(crate) fn waiters_blocked_by_record(&self, at: u32, now: Now) -> bool {
        let slot = self.slots.at(at).filter(|slot| slot.waiters() > 0);
        slot.is_some_and(|slot| self.data.find(&slot.key, now.tick).is_some())
    }

    /// Grants a key whose record is gone to the head of its queue.
    pub(crate) fn grant_after_record(&mut self, key: &Key, now: Now) -> Result<()> {
        let Some(at) = self.slots.find(key) else { return Ok(()) };
        let slot = self.slot(at)?;
        if !slot.is_free() || slot.waiters() == 0 {
            return Ok(());
        }
        match slot.details_mut().queue.pop() {
            Some(waiter) => self.grant_parked(at, waiter, now).map(drop),
            None => {
                self.forget_if_never_granted(at);
                Ok(())
            }
        }
    }
}

/// The holder shown for a record: its value as far as that is a valid name.
fn holder(value: &[u8]) -> Holder {
    let text: String = String::from_utf8_lossy(value)
        .chars()
        .map(|c| if c.is_ascii_graphic() { c } else { '?' })
        .take(limits::HOLDER)
        .collect();
    Holder::new(text)
        .or_else(|_| Holder::new("?"))
        .unwrap_or_else(|_| unreachable!("a question mark is a valid name"))
}

#[cfg(test)]
mod tests {
    use tenure_lease::{
        Acquired, Claim, Committed, Floor, Grant, Op, Phase, Revision, Tick, Token, Ttl, Wall,
    };

    use super::*;
    use crate::sync::oneshot;

    fn now(ms: u64) -> Now {
        Now { tick: Tick::from_nanos(ms * 1_000_000), wall: Wall::from_micros(1) }
    }

    fn claim(n: u32) -> Claim {
        let token = Token::parse(&format!("token-{n:020}")).unwrap();
        Claim::new(Key::new("k").unwrap(), Holder::new("a").unwrap(), token, Ttl::from_secs(10).unwrap())
    }

    fn park(table: &mut Table, n: u32, now: Now) -> oneshot::Receiver<Grant> {
        assert!(matches!(table.acquire(&claim(n), now).unwrap(), Acquired::Busy(_)));
        let (sender, grant) = oneshot::channel();
        table.park(claim(n), sender).unwrap();
        grant
    }

    fn commit(table: &mut Table, op: Op, now: Now) -> Revision {
        match table.commit(&[op], None, now).unwrap() {
            Committed::Written { revision } => revision,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_record_written_as_a_reign_expired_comes_before_the_queue() {
        let mut table = Table::new(Floor::default(), Revision::default(), false);
        let key = claim(1).key;
        table.acquire(&claim(1), now(1)).unwrap();
        let _waits = park(&mut table, 2, now(2));
        // The expired reign has not been settled.
        let value = b"record".as_slice().into();
        commit(&mut table, Op::Put { key: key.clone(), value, ttl: None }, now(20_000));
        table.expire(now(20_001), 10).unwrap();
        let status = table.status(&key, now(20_001));
        assert_eq!((status.phase, status.waiters, table.effects.grants.len()), (Phase::Free, 1, 0));
        let deleted = commit(&mut table, Op::Delete { key: key.clone() }, now(20_002));
        let status = table.status(&key, now(20_002));
        assert_eq!((status.phase, status.waiters, table.effects.grants.len()), (Phase::Held, 0, 1));
        // The grant has a revision of its own, after that of the commit.
        assert_eq!(table.revision, deleted.next());
    }
}

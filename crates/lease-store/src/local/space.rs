//! How many journal bytes a step may take at most. A step is decided only if the journal has room for them.

use tenure_lease::breaks::{Break, broken};
use tenure_lease::rules::State;
use tenure_lease::{Key, Op, Renewal, Wipe, limits};

use super::table::{Now, Table};

/// The bytes of a row besides its key and its texts: numbers, digests and lengths, each as long as it can be.
const ROW: u64 = 128;

/// The largest row of a key's state.
pub(crate) const LARGEST_SLOT_ROW: u64 = (limits::KEY + limits::HOLDER + limits::META) as u64 + ROW;

impl Table {
    /// The journal bytes of a commit.
    pub(crate) fn commit_bytes(&self, ops: &[Op]) -> u64 {
        // The mark of its fence.
        let mark = limits::KEY as u64 + ROW;
        ops.iter().map(|op| self.op_bytes(op)).sum::<u64>() + mark
    }

    fn op_bytes(&self, op: &Op) -> u64 {
        let row = op.key().as_str().len() as u64 + ROW;
        match op {
            Op::Put { value, .. } | Op::PutIfAbsent { value, .. } | Op::PutIfRevision { value, .. } => {
                row + value.len() as u64
            }
            Op::Append { log, value, max_len } => {
                let kept = self.data.logs.get(log).map_or(0, |log| log.entries.len());
                // Each operation appends one entry, so that later ones may find more of them.
                let dropped = (kept + limits::OPS).saturating_sub(*max_len) as u64;
                row + value.len() as u64 + dropped * (log.as_str().len() as u64 + 16)
            }
            // Its key may be granted to a waiter.
            Op::Delete { key } => row + self.waiter_bytes(key),
        }
    }

    /// The journal bytes of a wipe: a finished reign, a spent token that leaves the history and one that is forgotten, and
    /// the state of each key, which may be granted to a waiter.
    pub(crate) fn wipe_bytes(&self, wipe: &Wipe, now: Now) -> u64 {
        if broken(Break::UnderestimatesWipe) {
            return 256 * self.wiped(wipe, now).len() as u64;
        }
        let bytes = |at: u32| {
            let (slot, entry) = (self.slots.at(at)?, self.slots.entry(at)?);
            let holder = match &entry.state {
                State::Held(reign) => reign.holder.as_str().len() as u64,
                _ => 0,
            };
            Some(3 * (slot.key.as_str().len() as u64 + 48) + ROW + holder + self.waiter_bytes(&slot.key))
        };
        self.wiped(wipe, now).into_iter().filter_map(bytes).sum()
    }

    /// The journal bytes of the longer TTLs among these renewals.
    pub(crate) fn raised_bytes(&self, items: &[Renewal]) -> u64 {
        let longer = |item: &&Renewal| {
            let at = self.slots.find(&item.key);
            at.zip(item.ttl).is_some_and(|(at, ttl)| self.slots.hot(at).outlasts_disk(ttl))
        };
        items.iter().filter(longer).count() as u64 * LARGEST_SLOT_ROW
    }

    /// The row of a key that is granted to the waiter with the longest texts.
    fn waiter_bytes(&self, key: &Key) -> u64 {
        let queue = self.slots.get(key).and_then(|slot| slot.details()).map(|details| &details.queue);
        key.as_str().len() as u64 + ROW + queue.map_or(0, |queue| queue.longest_texts() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tenure_lease::{
        Acquired, Claim, Floor, Holder, Meta, Prefix, Proof, Release, Revision, Tick, Token, Ttl, Wall, Wiped,
    };

    use super::*;
    use crate::sync::oneshot;

    const NOW: Now = Now { tick: Tick::from_nanos(1), wall: Wall::from_micros(1 << 51) };

    fn table() -> Table {
        Table::new(Floor::default().raise(NOW.wall), Revision::default(), true)
    }

    /// A claim with texts as long as they can be.
    fn claim(key: &Key, n: usize) -> Claim {
        let holder = Holder::new("h".repeat(limits::HOLDER)).unwrap();
        let token = Token::parse(&format!("token-{n:020}")).unwrap();
        let meta = Meta::new("m".repeat(limits::META)).unwrap();
        Claim::new(key.clone(), holder, token, Ttl::MAX).meta(meta)
    }

    fn key(n: usize) -> Key {
        Key::new(format!("{n:0width$}", width = limits::KEY)).unwrap()
    }

    #[test]
    fn a_wipe_takes_no_more_than_its_estimate() {
        let mut table = table();
        let gate = Claim { key: Key::new("gate").unwrap(), ..claim(&key(0), 0) };
        let Acquired::Granted(held) = table.acquire(&gate, NOW).unwrap() else { panic!("busy") };
        let mut waiting = Vec::new();
        for n in 0..40 {
            // So many reigns that the history forgets one with each further one.
            for reign in 0..limits::REIGNS + 1 {
                let claim = claim(&key(n), 1 + reign);
                table.acquire(&claim, NOW).unwrap();
                table.release(&Release::new(key(n), claim.token), NOW).unwrap();
            }
            table.acquire(&claim(&key(n), 100), NOW).unwrap();
            let (sender, grant) = oneshot::channel();
            table.park(claim(&key(n), 101), sender).unwrap();
            waiting.push(grant);
        }
        let proof = Proof { key: gate.key, token: gate.token, generation: held.lease.generation };
        let wipe = Wipe { prefix: Prefix::new("0").unwrap(), gate: proof };
        let most = table.wipe_bytes(&wipe, NOW);
        table.effects.take();
        assert_eq!(table.wipe(&wipe, NOW).unwrap(), Wiped::Wiped { count: 40 });
        let taken = table.effects.rows.len() as u64;
        assert!(taken <= most && most < 2 * taken, "{taken} of {most}");
    }

    #[test]
    fn a_commit_takes_no_more_than_its_estimate() {
        let mut table = table();
        let value: Arc<[u8]> = vec![7; 1_000].into();
        let append = |max_len| Op::Append { log: key(1), value: value.clone(), max_len };
        for _ in 0..100 {
            table.commit(&[append(1_000)], None, NOW).unwrap();
        }
        table.commit(&[Op::Put { key: key(2), value: value.clone(), ttl: None }], None, NOW).unwrap();
        let (sender, _grant) = oneshot::channel();
        table.park(claim(&key(2), 1), sender).unwrap();
        let ops = [
            append(1),
            Op::Delete { key: key(2) },
            Op::Put { key: key(3), value: value.clone(), ttl: Some(Ttl::MAX) },
        ];
        let most = table.commit_bytes(&ops);
        table.effects.take();
        table.commit(&ops, None, NOW).unwrap();
        assert_eq!(table.effects.grants.len(), 1);
        let taken = table.effects.rows.len() as u64;
        assert!(taken <= most, "{taken} of {most}");
    }
}

//! Which keys need not be remembered any more, so that a table does not grow with every key that was ever named.

use lease::{Generation, Result};

use super::rows::Table as RowTable;
use super::slots::Slot;
use super::table::{Now, Table};

/// How many free keys are remembered with their history. Older ones are forgotten under a raised floor, so
/// that their generations still never repeat.
const FREE_KEYS: usize = 100_000;

impl Slot {
    /// Whether somebody waits for this key, or a token was given up on it.
    fn is_needed(&self) -> bool {
        self.rare().is_some_and(|rare| rare.queue.len() > 0 || !rare.tombs.is_empty())
    }
}

impl Table {
    /// Notes that a key became free, and forgets those that have been free for longest when there are too many.
    pub(crate) fn note_free(&mut self, at: u32, now: Now) -> Result<()> {
        if let Some(last) = self.slot(at)?.last {
            self.freed.push_back((at, last));
        }
        // Two for one, so that those that are needed a little longer do not add up.
        for _ in 0..2 {
            if self.freed.len() > FREE_KEYS
                && let Some((old, generation)) = self.freed.pop_front()
            {
                self.forget(old, generation, now);
            }
        }
        Ok(())
    }

    /// Forgets a key that is free since the end of this generation. One that is still needed is looked at again later.
    fn forget(&mut self, at: u32, generation: Generation, now: Now) {
        self.prune(at, now);
        let Some(slot) = self.slots.at(at).filter(|s| s.is_free() && s.last == Some(generation)) else {
            return;
        };
        if slot.is_needed() {
            self.freed.push_back((at, generation));
            return;
        }
        let Some(slot) = self.slots.remove(at) else { return };
        self.floor = self.floor.covering(generation);
        self.out.put(RowTable::Own, &[b"floor"], &self.floor.get());
        let key = slot.key.as_str().as_bytes();
        self.out.delete(RowTable::Slot, &[key]);
        let rows = slot.rare().map_or(0, |rare| rare.past.len() as u64);
        for n in 0..rows {
            self.out.delete(RowTable::Reign, &[key, &[0], &n.to_be_bytes()]);
        }
    }

    /// Forgets a key that was never granted and that nobody needs. Nothing of it is on disk.
    pub(crate) fn forget_unborn(&mut self, at: u32) {
        let unborn = self.slots.at(at).is_some_and(|s| s.is_free() && s.last.is_none() && !s.is_needed());
        if unborn {
            self.slots.remove(at);
        }
    }

    /// Drops what time has ended at a key besides its reign.
    pub(crate) fn tidy(&mut self, at: u32, now: Now) {
        self.prune(at, now);
        self.forget_unborn(at);
    }

    fn prune(&mut self, at: u32, now: Now) {
        if let Some(slot) = self.slots.at_mut(at).filter(|slot| slot.rare().is_some()) {
            slot.rare_mut().prune(now.tick);
        }
    }
}

#[cfg(test)]
mod tests {
    use lease::{
        Acquired, Claim, Floor, Holder, Key, Op, Refusal, Release, Released, Revision, Tick, Token, Ttl,
        Wall, limits,
    };

    use super::*;
    use crate::sync::oneshot;

    fn now(ms: u64) -> Now {
        Now { tick: Tick::from_nanos((1 + ms) * 1_000_000), wall: Wall::from_micros(1) }
    }

    fn key(n: usize) -> Key {
        Key::new(format!("key/{n}")).unwrap()
    }

    fn claim(n: usize) -> Claim {
        let token = Token::parse(&format!("token-{n:020}")).unwrap();
        Claim::new(key(n), Holder::new("a").unwrap(), token, Ttl::from_secs(10).unwrap())
    }

    fn table() -> Table {
        Table::new(Floor::default(), Revision::default(), false)
    }

    fn release(table: &mut Table, n: usize, now: Now) -> Released {
        let Claim { key, token, .. } = claim(n);
        table.release(&Release::new(key, token), now).unwrap()
    }

    fn known(table: &Table) -> usize {
        table.slots.ordered("").count()
    }

    /// Does all that time asks for.
    fn pass(table: &mut Table, now: Now) {
        while table.expire(now, 100).unwrap() > 0 {}
    }

    #[test]
    fn releases_of_keys_that_nobody_held_are_forgotten_after_a_minute() {
        let mut table = table();
        for n in 0..10_000 {
            assert_eq!(release(&mut table, n, now(n as u64)), Released::NotHeld);
        }
        assert_eq!(known(&table), 10_000);
        // Given up once more, one is kept for longer.
        let other = Token::parse("another-token-of-some-length").unwrap();
        table.release(&Release::new(key(7), other), now(30_000)).unwrap();
        pass(&mut table, now(limits::TOMBSTONE_MS + 5_000));
        assert_eq!(known(&table), 4_999 + 1);
        let late = table.acquire(&claim(6_000), now(limits::TOMBSTONE_MS + 5_000)).unwrap_err();
        assert!(matches!(late, lease::Error::Refused(Refusal::TokenSpent)), "{late}");
        pass(&mut table, now(limits::TOMBSTONE_MS + 30_000));
        assert_eq!((known(&table), table.next_due()), (0, None));
    }

    #[test]
    fn a_claim_that_gets_nothing_leaves_no_key_behind() {
        let mut table = table();
        for n in 0..3 {
            let value = b"record".as_slice().into();
            table.commit(&[Op::Put { key: key(n), value, ttl: None }], None, now(0)).unwrap();
            assert!(matches!(table.acquire(&claim(n), now(1)).unwrap(), Acquired::Busy(_)));
            let (told, grant) = oneshot::channel();
            table.park(claim(n), told).unwrap();
            assert_eq!(known(&table), 1);
            drop(grant);
            match n {
                0 => table.leave(&key(n), claim(n).token.digest()).unwrap(),
                1 => drop(table.unpark(&claim(n), now(2)).unwrap()),
                _ => drop(table.commit(&[Op::Delete { key: key(n) }], None, now(2)).unwrap()),
            }
            assert_eq!(known(&table), 0, "{n}");
        }
        let dead = claim(9).instead_of(Generation::new(1).unwrap());
        assert!(matches!(table.acquire(&dead, now(3)).unwrap(), Acquired::Busy(_)));
        assert_eq!(known(&table), 0);
    }

    #[test]
    fn a_free_key_on_which_a_token_was_given_up_is_forgotten_in_the_end() {
        let mut table = table();
        let first = claim(0);
        table.acquire(&first, now(0)).unwrap();
        assert_eq!(release(&mut table, 0, now(0)), Released::Released);
        let other = Token::parse("another-token-of-some-length").unwrap();
        table.release(&Release::new(first.key.clone(), other), now(0)).unwrap();
        let mut let_go = |count: std::ops::Range<usize>, at: u64| {
            for n in count {
                table.acquire(&claim(n), now(at)).unwrap();
                assert_eq!(release(&mut table, n, now(at)), Released::Released);
            }
            (known(&table), table.slots.find(&first.key).is_some())
        };
        // It is the oldest, and its tomb keeps it for a minute.
        assert_eq!(let_go(1..FREE_KEYS + 5, 1), (FREE_KEYS, true));
        assert_eq!(let_go(FREE_KEYS + 5..2 * FREE_KEYS + 10, limits::TOMBSTONE_MS), (FREE_KEYS, false));
    }
}

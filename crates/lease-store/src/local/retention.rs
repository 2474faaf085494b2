//! Which keys and tokens are forgotten, so that the table does not grow with every one ever named.

use std::time::Duration;

use tenure_lease::{Generation, Result, Tick, limits};

use super::rows::Table as RowTable;
use super::slots::{PastReign, Slot, SlotDetails};
use super::spent_tokens::{ShortDigest, SpentTokens};
use super::table::{NO_TOKEN, Now, Table, broken};

/// How many free keys are kept with their past: the last generation, the history and the high-water mark. Older ones are
/// forgotten under a raised floor, so that their generations still never repeat.
const FREE_KEYS: usize = 100_000;

/// How long a free key is kept with its past.
const PAST_KEPT: Duration = Duration::from_secs(7 * 86_400);

/// How long a token is refused after it was spent or given up.
pub(crate) const REFUSED_FOR: Duration = Duration::from_millis(limits::TOMBSTONE_MS);

/// After how many reigns of its key a spent token may be forgotten before its time.
const SPENT_REIGNS: usize = 4_096;

/// The most tombstones of all keys.
const TOMBSTONES: usize = 65_536;

/// How many tokens of a key one step forgets: each is a row in the journal.
const FORGOTTEN_AT_ONCE: usize = 3;

impl Slot {
    /// Whether the key has waiters, or refuses tokens.
    fn is_needed(&self) -> bool {
        self.details().is_some_and(|details| details.queue.len() > 0 || details.refuses_tokens())
    }
}

/// A key that became free.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreedKey {
    at: u32,
    /// Its last generation: with another one it was granted again.
    generation: Generation,
    since: Tick,
}

/// A token that a key refuses because it was released without holding anything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tombstone {
    pub(crate) at: u32,
    pub(crate) token: ShortDigest,
    pub(crate) until: Tick,
}

/// Why a key refuses a token.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refused {
    /// It was released without holding anything.
    GivenUp,
    /// Its reign was ended on purpose, and is no longer in the history.
    Spent,
}

impl Refused {
    pub(crate) const ALL: [Self; 2] = [Self::GivenUp, Self::Spent];

    pub(crate) const fn rows(self) -> RowTable {
        match self {
            Self::GivenUp => RowTable::Tombstone,
            Self::Spent => RowTable::SpentToken,
        }
    }

    /// The most tokens per key.
    const fn limit(self) -> usize {
        match self {
            Self::GivenUp => limits::WAITERS,
            Self::Spent => SPENT_REIGNS - limits::REIGNS,
        }
    }

    pub(crate) const fn tokens(self, details: &mut SlotDetails) -> &mut SpentTokens {
        match self {
            Self::GivenUp => &mut details.tombstones,
            Self::Spent => &mut details.spent,
        }
    }
}

impl Table {
    /// Records that a key became free.
    pub(crate) fn note_free(&mut self, at: u32, now: Now) -> Result<()> {
        if let Some(generation) = self.slot(at)?.last {
            self.freed.push_back(FreedKey { at, generation, since: now.tick });
        }
        Ok(())
    }

    /// Forgets the oldest free keys when there are too many or their time is over: two at most, because each is many rows in
    /// the journal. Steps on one key do this, never a wipe or the timer, whose rows are counted per key. Every reign begins
    /// with such a step, so that keys do not accumulate, even those that are needed a little longer.
    pub(crate) fn forget_excess(&mut self, now: Now) {
        for _ in 0..2 {
            let Some(oldest) = self.freed.front() else { return };
            if self.freed.len() <= FREE_KEYS && now.tick.since(oldest.since) < PAST_KEPT {
                return;
            }
            if let Some(oldest) = self.freed.pop_front() {
                self.forget(oldest, now);
            }
        }
    }

    /// Forgets a key that is free since the end of this generation. One that is still needed is queued again.
    fn forget(&mut self, freed: FreedKey, now: Now) {
        let FreedKey { at, generation, .. } = freed;
        self.prune(at, now);
        let Some(slot) = self.slots.at(at).filter(|s| s.is_free() && s.last == Some(generation)) else {
            return;
        };
        if slot.is_needed() {
            self.freed.push_back(FreedKey { since: now.tick, ..freed });
            return;
        }
        let Some(slot) = self.slots.remove(at) else { return };
        self.floor = self.floor.covering(generation);
        self.effects.put(RowTable::Own, &[b"floor"], &self.floor.get());
        let key = slot.key.as_str().as_bytes();
        self.effects.delete(RowTable::Slot, &[key]);
        let rows = slot.details().map_or(0, |details| details.past.len() as u64);
        for n in 0..rows {
            self.effects.delete(RowTable::Reign, &[key, &[0], &n.to_be_bytes()]);
        }
        // Nothing proves a fence of this key any more, so that no write needs the mark to be fenced out.
        if self.data.marks.remove(&slot.key).is_some() {
            self.effects.delete(RowTable::HighWaterMark, &[key]);
        }
    }

    /// Refuses a token that was released without holding anything.
    pub(crate) fn add_tombstone(&mut self, at: u32, token: ShortDigest, now: Now) -> Result<()> {
        let until = now.tick + REFUSED_FOR;
        self.refuse(at, Refused::GivenUp, token, until, now)?;
        self.tombstones.push_back(Tombstone { at, token, until });
        self.drop_excess_tombstones(now);
        Ok(())
    }

    /// Drops the oldest tombstones of all keys when there are too many: two at most, because each is a row in the journal.
    fn drop_excess_tombstones(&mut self, now: Now) {
        for _ in 0..2 {
            let Some(Tombstone { at, token, until }) = self.tombstones.front().copied() else { return };
            if until > now.tick && self.tombstones.len() <= TOMBSTONES {
                return;
            }
            self.tombstones.pop_front();
            // One whose time is over is dropped with its key.
            if until > now.tick
                && let Some(slot) = self.slots.at_mut(at)
                && slot.details_mut().tombstones.remove(&token, until)
            {
                let key = slot.key.as_str().as_bytes();
                self.effects.delete(RowTable::Tombstone, &[key, &[0], &token]);
                self.forget_if_never_granted(at);
            }
        }
    }

    /// Goes on refusing the token of a reign that the history no longer shows.
    pub(crate) fn keep_spent_token(&mut self, at: u32, past: &PastReign, now: Now) -> Result<()> {
        let until = past.ended + REFUSED_FOR;
        if !past.end.spends_token() || past.token == NO_TOKEN || until <= now.tick {
            return Ok(());
        }
        self.refuse(at, Refused::Spent, past.token, until, now)
    }

    /// Refuses a token on a key, in place of the oldest one if there are too many or if its time is over.
    fn refuse(&mut self, at: u32, why: Refused, token: ShortDigest, until: Tick, now: Now) -> Result<()> {
        let slot = self.slots.at_mut(at).ok_or_else(broken)?;
        let tokens = why.tokens(slot.details_mut());
        let gone = if tokens.len() < why.limit() { tokens.pop_expired(now.tick) } else { tokens.pop() };
        tokens.push(token, until);
        let key = slot.key.as_str().as_bytes();
        if let Some(gone) = gone {
            self.effects.delete(why.rows(), &[key, &[0], &gone]);
        }
        self.effects.put(why.rows(), &[key, &[0], &token], &until.as_nanos());
        self.slots.arm(at);
        Ok(())
    }

    /// Forgets a key that was never granted and is not needed. Nothing of it is on disk.
    pub(crate) fn forget_if_never_granted(&mut self, at: u32) {
        let unborn = self.slots.at(at).is_some_and(|s| s.is_free() && s.last.is_none() && !s.is_needed());
        if unborn {
            self.slots.remove(at);
        }
    }

    /// Drops tokens of a key that are no longer refused, and the key if it was never granted.
    pub(crate) fn tidy(&mut self, at: u32, now: Now) {
        self.prune(at, now);
        self.forget_if_never_granted(at);
        // There may be more of them than one step drops.
        self.slots.arm(at);
    }

    fn prune(&mut self, at: u32, now: Now) {
        let refuses = |slot: &&mut Slot| slot.details().is_some_and(SlotDetails::refuses_tokens);
        let Some(slot) = self.slots.at_mut(at).filter(refuses) else { return };
        for why in Refused::ALL {
            for _ in 0..FORGOTTEN_AT_ONCE {
                let Some(gone) = why.tokens(slot.details_mut()).pop_expired(now.tick) else { break };
                self.effects.delete(why.rows(), &[slot.key.as_str().as_bytes(), &[0], &gone]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure_lease::{
        Acquired, Claim, Committed, Fence, Floor, Holder, Key, Mode, Op, Refusal, Release, Released,
        Revision, Tick, Token, Ttl, Wall, limits,
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

    /// Ends everything that is due.
    fn pass(table: &mut Table, now: Now) {
        while table.expire(now, 100).unwrap() > 0 {}
    }

    #[test]
    fn releases_of_keys_that_were_not_held_are_forgotten_after_a_minute() {
        let mut table = table();
        for n in 0..10_000 {
            assert_eq!(release(&mut table, n, now(n as u64)), Released::NotHeld);
        }
        assert_eq!(known(&table), 10_000);
        // A second release keeps a key for longer.
        let other = Token::parse("another-token-of-some-length").unwrap();
        table.release(&Release::new(key(7), other), now(30_000)).unwrap();
        pass(&mut table, now(limits::TOMBSTONE_MS + 5_000));
        assert_eq!(known(&table), 4_999 + 1);
        let late = table.acquire(&claim(6_000), now(limits::TOMBSTONE_MS + 5_000)).unwrap_err();
        assert!(matches!(late, tenure_lease::Error::Refused(Refusal::TokenSpent)), "{late}");
        pass(&mut table, now(limits::TOMBSTONE_MS + 30_000));
        assert_eq!((known(&table), table.next_due()), (0, None));
    }

    #[test]
    fn of_too_many_tombstones_the_oldest_are_dropped() {
        let mut table = table();
        for n in 0..TOMBSTONES + 10 {
            release(&mut table, n, now(0));
        }
        assert_eq!((known(&table), table.tombstones.len()), (TOMBSTONES, TOMBSTONES));
        let newest = table.acquire(&claim(TOMBSTONES + 9), now(1)).unwrap_err();
        assert!(matches!(newest, tenure_lease::Error::Refused(Refusal::TokenSpent)), "{newest}");
        assert!(matches!(table.acquire(&claim(9), now(1)).unwrap(), Acquired::Granted(_)));
    }

    #[test]
    fn a_claim_without_a_grant_leaves_no_key_behind() {
        let mut table = table();
        for n in 0..3 {
            let value = b"record".as_slice().into();
            table.commit(&[Op::Put { key: key(n), value, ttl: None }], None, now(0)).unwrap();
            assert!(matches!(table.acquire(&claim(n), now(1)).unwrap(), Acquired::Busy(_)));
            let (sender, grant) = oneshot::channel();
            table.park(claim(n), sender).unwrap();
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
    fn a_free_key_with_a_tombstone_is_forgotten_in_the_end() {
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
        // It is the oldest, and its tombstone keeps it for a minute.
        assert_eq!(let_go(1..FREE_KEYS + 5, 1), (FREE_KEYS, true));
        assert_eq!(let_go(FREE_KEYS + 5..2 * FREE_KEYS + 10, limits::TOMBSTONE_MS), (FREE_KEYS, false));
    }

    /// Acquires a key and writes under its fence.
    fn write_fenced(table: &mut Table, n: usize, now: Now) -> Fence {
        let Claim { key, token, .. } = claim(n);
        let Acquired::Granted(grant) = table.acquire(&claim(n), now).unwrap() else { panic!("busy") };
        let fence = Fence { key, token, generation: grant.lease.generation, mode: Mode::Monotonic };
        assert!(matches!(commit(table, &fence, now), Committed::Written { .. }));
        fence
    }

    fn commit(table: &mut Table, fence: &Fence, now: Now) -> Committed {
        let put = Op::Put { key: Key::new("record").unwrap(), value: b"1".as_slice().into(), ttl: None };
        table.commit(&[put], Some(fence), now).unwrap()
    }

    #[test]
    fn a_key_that_stays_free_is_forgotten_with_its_mark_after_seven_days() {
        let mut table = table();
        let fence = write_fenced(&mut table, 0, now(0));
        release(&mut table, 0, now(0));
        let week = PAST_KEPT.as_millis() as u64;
        // Any step looks for keys whose time is over.
        table.acquire(&claim(1), now(week - 1)).unwrap();
        assert!(matches!(commit(&mut table, &fence, now(week - 1)), Committed::Written { .. }));
        table.acquire(&claim(2), now(week)).unwrap();
        assert!(table.slots.find(&fence.key).is_none() && table.data.marks.is_empty());
        assert_eq!(commit(&mut table, &fence, now(week)), Committed::FencedOut { current: None });
        let Acquired::Granted(next) = table.acquire(&claim(0), now(week)).unwrap() else { panic!("busy") };
        assert!(next.lease.generation > fence.generation);
    }

    #[test]
    fn of_too_many_free_keys_the_oldest_are_forgotten_with_their_marks() {
        let mut table = table();
        for n in 0..FREE_KEYS + 10 {
            write_fenced(&mut table, n, now(1));
            assert_eq!(release(&mut table, n, now(1)), Released::Released);
        }
        assert_eq!((known(&table), table.data.marks.len()), (FREE_KEYS, FREE_KEYS));
    }

    /// One reign of a key, which spends a token of this number.
    fn reign(table: &mut Table, n: usize, now: Now) {
        let claim = Claim { key: key(0), ..claim(n) };
        assert!(matches!(table.acquire(&claim, now).unwrap(), Acquired::Granted(_)), "{n}");
        let released = table.release(&Release::new(key(0), claim.token), now).unwrap();
        assert_eq!(released, Released::Released);
    }

    fn is_refused(table: &mut Table, n: usize, now: Now) -> bool {
        let claim = Claim { key: key(0), ..claim(n) };
        matches!(table.acquire(&claim, now), Err(tenure_lease::Error::Refused(Refusal::TokenSpent)))
    }

    #[test]
    fn a_spent_token_is_refused_for_4096_reigns_of_its_key() {
        let mut table = table();
        for n in 0..SPENT_REIGNS {
            reign(&mut table, n, now(n as u64));
        }
        let last = now(SPENT_REIGNS as u64);
        assert!(is_refused(&mut table, 0, last));
        reign(&mut table, SPENT_REIGNS, last);
        assert!(!is_refused(&mut table, 0, last));
    }

    #[test]
    fn a_spent_token_is_refused_for_a_minute_however_short_the_history() {
        let mut table = table();
        for n in 0..=limits::REIGNS {
            reign(&mut table, n, now(0));
        }
        assert!(is_refused(&mut table, 0, now(limits::TOMBSTONE_MS - 1)));
        assert!(!is_refused(&mut table, 0, now(limits::TOMBSTONE_MS)));
    }

    #[test]
    fn tokens_that_are_no_longer_refused_leave_no_memory_and_no_rows() {
        let mut table = Table::new(Floor::default(), Revision::default(), true);
        for n in 0..200 {
            reign(&mut table, n, now(0));
            let given_up = Token::parse(&format!("given-up-{n:020}")).unwrap();
            table.release(&Release::new(key(0), given_up), now(0)).unwrap();
        }
        pass(&mut table, now(limits::TOMBSTONE_MS));
        let at = table.slots.find(&key(0)).unwrap();
        assert!(!table.slots.at(at).unwrap().is_needed());
        let mut rows = std::collections::BTreeSet::new();
        for op in crate::local::rows::read(&table.effects.rows).map(|op| op.unwrap()) {
            match op {
                crate::local::rows::RowOp::Put { key, .. } => rows.insert(key),
                crate::local::rows::RowOp::Delete { key } => rows.remove(key),
            };
        }
        let kept = |why: Refused| rows.iter().filter(|row| row[0] == why.rows().byte()).count();
        assert_eq!(Refused::ALL.map(kept), [0, 0]);
    }
}

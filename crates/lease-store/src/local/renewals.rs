//! Batches of renewals.

use tenure_lease::breaks::{self, Break};
use tenure_lease::rules::{self, State};
use tenure_lease::{End, Renewal, Renewed, Result};

use super::table::{Now, Table, broken};

/// The distance between two stages in renewals: long enough for a cache line to arrive from memory, short enough that it
/// is still in the nearest cache when it is used.
const AHEAD: usize = 8;
/// Renewals in the pipeline; a power of two.
const IN_FLIGHT: usize = 32;

impl Table {
    /// Renews reigns. The flag says that a longer TTL must be on disk before the answer.
    ///
    /// With a million leases a renewal reads memory three times that is in no cache, and each read depends on the one
    /// before: the key, its entry in the index, the hot part of its slot. So each is prefetched some renewals ahead, and
    /// arrives while others are being decided.
    pub(crate) fn renew(&mut self, items: &[Renewal], now: Now) -> Result<(Vec<Renewed>, bool)> {
        let mut longer = false;
        let mut answers = Vec::with_capacity(items.len());
        let mut renew = |table: &mut Self, item, hash, likely| -> Result<()> {
            let (answer, written) = table.renew_likely(item, hash, likely, now)?;
            longer |= written;
            answers.push(answer);
            Ok(())
        };
        if let [item] = items {
            let hash = self.slots.hash(&item.key);
            let likely = self.slots.likely(hash);
            renew(self, item, hash, likely)?;
            return Ok((answers, longer));
        }
        let mut hashes = [0; IN_FLIGHT];
        let mut likely = [None; IN_FLIGHT];
        for step in 0..items.len() + 4 * AHEAD {
            let at = |stage: usize| step.checked_sub(stage * AHEAD).filter(|i| *i < items.len());
            if let Some(i) = at(0) {
                tenure_hints::prefetch(&items[i].key);
                tenure_hints::prefetch(&items[i].generation);
            }
            if let Some(i) = at(1)
                && let [first, .., last] | [first @ last] = items[i].key.as_str().as_bytes()
            {
                tenure_hints::prefetch(first);
                tenure_hints::prefetch(last);
            }
            if let Some(i) = at(2) {
                let hash = self.slots.hash(&items[i].key);
                hashes[i % IN_FLIGHT] = hash;
                self.slots.prefetch(hash);
            }
            if let Some(i) = at(3) {
                likely[i % IN_FLIGHT] = self.slots.likely(hashes[i % IN_FLIGHT]);
            }
            if let Some(i) = at(4) {
                renew(self, &items[i], hashes[i % IN_FLIGHT], likely[i % IN_FLIGHT])?;
            }
        }
        Ok((answers, longer))
    }

    #[inline]
    fn renew_likely(
        &mut self,
        item: &Renewal,
        hash: u64,
        likely: Option<u32>,
        now: Now,
    ) -> Result<(Renewed, bool)> {
        match likely.and_then(|at| self.slots.try_renew(at, hash, item, now.tick)) {
            Some(ttl) => Ok((Renewed::Renewed { remaining: ttl.as_duration() }, false)),
            None => self.renew_one(item, now),
        }
    }

    /// Renews one reign on the slow path, or says why it ended.
    fn renew_one(&mut self, item: &Renewal, now: Now) -> Result<(Renewed, bool)> {
        let Some(at) = self.slots.find(&item.key) else { return Ok((Renewed::Lost(End::Gone), false)) };
        let entry = self.entry(at)?;
        if let Err(why) = rules::renew(&entry, item.token.digest(), item.generation, now.tick) {
            if breaks::broken(Break::RenewCreates) && matches!(entry.state, State::Free) {
                return self.revive(at, item, now);
            }
            let why = match why {
                Some(why) => why,
                None => self.slot(at)?.end_of(item.generation),
            };
            return Ok((Renewed::Lost(why), false));
        }
        let State::Held(tenant) = entry.state else { return Err(broken()) };
        let ttl = item.ttl.unwrap_or(tenant.ttl);
        let hot = self.slots.hot_mut(at);
        hot.ttl = ttl;
        hot.expires = now.tick + ttl.as_duration();
        let longer = hot.outlasts_disk(ttl);
        if longer {
            self.effects.raised = true;
            self.write_slot(at, now)?;
        }
        if ttl < tenant.ttl {
            self.slots.arm(at);
        }
        Ok((Renewed::Renewed { remaining: ttl.as_duration() }, longer))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tenure_lease::{Acquired, Claim, Floor, Generation, Holder, Key, Revision, Tick, Token, Ttl, Wall};

    use super::*;

    fn now(ms: u64) -> Now {
        Now { tick: Tick::from_nanos(ms * 1_000_000), wall: Wall::from_micros(1) }
    }

    fn key(n: usize) -> Key {
        Key::new(format!("key/{n}")).unwrap()
    }

    fn token(n: usize) -> Token {
        Token::parse(&format!("token-{n:020}")).unwrap()
    }

    /// A table with `count` leases for 10 s, and what renews each of them.
    fn held(count: usize) -> (Table, Vec<Renewal>) {
        let mut table = Table::new(Floor::default(), Revision::default(), false);
        let items = (0..count).map(|n| {
            let ttl = Ttl::from_secs(10).unwrap();
            let claim = Claim::new(key(n), Holder::new("a").unwrap(), token(n), ttl);
            let Acquired::Granted(grant) = table.acquire(&claim, now(1)).unwrap() else { panic!("{n}") };
            Renewal { key: key(n), token: token(n), generation: grant.lease.generation, ttl: None }
        });
        let items = items.collect();
        (table, items)
    }

    /// Makes a renewal wrong or special.
    fn bend(n: usize, item: &mut Renewal, count: usize) {
        match n % 9 {
            1 => item.token = token(n + 1),
            2 => item.generation = Generation::new(item.generation.get() + 1).unwrap(),
            3 => item.key = key((n + 1) % count),
            4 => item.key = Key::new("never/held").unwrap(),
            5 => item.ttl = Some(Ttl::from_secs(60).unwrap()),
            6 => item.ttl = Some(Ttl::from_millis(500).unwrap()),
            _ => {}
        }
    }

    #[test]
    fn a_batch_answers_as_its_renewals_do_one_by_one() {
        for count in [2, 7, 8, 9, 33, 500] {
            for ms in [5_000, 10_000, 10_001, 20_000] {
                let (mut together, mut items) = held(count);
                items.iter_mut().enumerate().for_each(|(n, item)| bend(n, item, count));
                let (mut alone, _) = held(count);
                let (answers, longer) = together.renew(&items, now(ms)).unwrap();
                let each: Vec<_> = items.iter().map(|item| alone.renew_one(item, now(ms)).unwrap()).collect();
                assert_eq!(
                    answers,
                    each.iter().map(|(answer, _)| *answer).collect::<Vec<_>>(),
                    "{count} {ms}"
                );
                assert_eq!(longer, each.iter().any(|(_, longer)| *longer), "{count} {ms}");
                for n in 0..count {
                    let state = |table: &Table| table.status(&key(n), now(ms));
                    assert_eq!(state(&together), state(&alone), "{n} of {count} at {ms}");
                }
                assert_eq!(together.next_due(), alone.next_due(), "{count} {ms}");
            }
        }
    }

    #[test]
    fn a_renewal_in_order_lasts_for_its_ttl_from_now() {
        let (mut table, items) = held(100);
        let (answers, longer) = table.renew(&items, now(9_000)).unwrap();
        let renewed = Renewed::Renewed { remaining: Duration::from_secs(10) };
        assert!(!longer && answers.iter().all(|answer| *answer == renewed), "{answers:?}");
        let (answers, _) = table.renew(&items, now(18_999)).unwrap();
        assert!(answers.iter().all(|answer| *answer == renewed), "{answers:?}");
        let (answers, _) = table.renew(&items, now(28_999)).unwrap();
        assert!(answers.iter().all(|answer| *answer == Renewed::Lost(End::Expired)), "{answers:?}");
    }
}

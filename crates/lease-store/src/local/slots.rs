//! Where the entries of all keys sit: a slab found by hash and by order, with one timer per key.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use lease::breaks::{Break, broken};
use lease::rules::Entry;
use lease::{End, Generation, Holder, Key, Reign, Tick, Ttl, Wall, limits};

use super::queue::Queue;

/// One key and all that is known of it.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) key: Key,
    pub(crate) entry: Entry,
    /// The longest TTL that is on disk for the running reign.
    pub(crate) durable_ttl: Option<Ttl>,
    /// The timer in the heap that will look at this slot.
    armed: Option<Tick>,
    rare: Option<Box<Rare>>,
}

/// What most keys most of the time do not have.
#[derive(Debug, Default)]
pub(crate) struct Rare {
    pub(crate) queue: Queue,
    pub(crate) past: VecDeque<Past>,
    /// How many reigns have ended, which is where the next one goes on disk.
    pub(crate) ended: u64,
    pub(crate) tombs: Vec<([u8; 16], Tick)>,
}

/// A finished reign.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    pub(crate) holder: Holder,
    pub(crate) generation: Generation,
    pub(crate) from: Wall,
    pub(crate) until: Wall,
    pub(crate) end: End,
    pub(crate) token: [u8; 16],
}

impl Past {
    pub(crate) fn reign(&self) -> Reign {
        Reign {
            holder: self.holder.clone(),
            generation: self.generation,
            from: self.from,
            until: Some(self.until),
            end: Some(self.end),
        }
    }
}

impl Slot {
    /// Looks at what a renewal looks at, so that it is in the cache by then.
    fn peek(&self) -> u64 {
        use lease::rules::State;
        let held = match &self.entry.state {
            State::Held(t) => {
                t.expires.as_nanos() ^ u64::from(t.digest.as_bytes()[0]) ^ u64::from(t.digest.as_bytes()[31])
            }
            _ => 0,
        };
        held ^ self.durable_ttl.map_or(0, Ttl::as_millis) ^ self.key.as_str().len() as u64
    }

    pub(crate) fn rare(&self) -> Option<&Rare> {
        self.rare.as_deref()
    }

    pub(crate) fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    pub(crate) fn waiters(&self) -> u32 {
        self.rare().map_or(0, |rare| rare.queue.len() as u32)
    }

    /// Whether this token was spent on this key, or given up within the tombstone's time.
    pub(crate) fn spent(&self, token: &[u8; 16], now: Tick) -> bool {
        self.rare().is_some_and(|rare| {
            let served = rare.past.iter().any(|p| p.token == *token && p.end.spends_token());
            (served && !broken(Break::TokenReuse)) || rare.buried(token, now)
        })
    }

    /// Whether this token ever held this key or was given up, as far as is remembered.
    pub(crate) fn known(&self, token: &[u8; 16], now: Tick) -> bool {
        self.rare().is_some_and(|rare| rare.past.iter().any(|p| p.token == *token) || rare.buried(token, now))
    }
}

impl Rare {
    fn buried(&self, token: &[u8; 16], now: Tick) -> bool {
        self.tombs.iter().any(|(buried, until)| buried == token && now < *until)
    }

    /// Marks a token that held nothing as given up. The oldest mark goes when there are too many.
    pub(crate) fn bury(&mut self, token: [u8; 16], now: Tick, until: Tick) {
        self.tombs.retain(|(_, end)| now < *end);
        if self.tombs.len() == limits::WAITERS {
            self.tombs.remove(0);
        }
        self.tombs.push((token, until));
    }

    /// Remembers a finished reign and says where on disk it belongs.
    pub(crate) fn remember(&mut self, past: Past) -> u64 {
        if self.past.len() == limits::REIGNS {
            self.past.pop_front();
        }
        self.past.push_back(past);
        self.ended += 1;
        (self.ended - 1) % limits::REIGNS as u64
    }
}

/// All slots.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    hasher: DefaultHashBuilder,
    index: HashTable<u32>,
    order: BTreeMap<Key, u32>,
    slab: Slab,
    timers: BinaryHeap<Reverse<(Tick, u32)>>,
}

/// Slots in blocks, so that growing never copies and never doubles what is resident.
#[derive(Debug, Default)]
struct Slab {
    blocks: Vec<Vec<Option<Slot>>>,
    vacant: Vec<u32>,
}

const BLOCK: usize = 1_024;
/// How many keys are looked for together.
pub(crate) const FEW: usize = 64;

fn first(key: &Key) -> u8 {
    key.as_str().as_bytes().first().copied().unwrap_or(0)
}

impl Slab {
    fn insert(&mut self, slot: Slot) -> u32 {
        if let Some(at) = self.vacant.pop() {
            self.blocks[at as usize / BLOCK][at as usize % BLOCK] = Some(slot);
            return at;
        }
        if self.blocks.last().is_none_or(|block| block.len() == BLOCK) {
            self.blocks.push(Vec::with_capacity(BLOCK));
        }
        let last = self.blocks.len() - 1;
        let block = &mut self.blocks[last];
        block.push(Some(slot));
        (last * BLOCK + block.len() - 1) as u32
    }

    fn get(&self, at: u32) -> Option<&Slot> {
        self.blocks[at as usize / BLOCK][at as usize % BLOCK].as_ref()
    }

    fn get_mut(&mut self, at: u32) -> Option<&mut Slot> {
        self.blocks[at as usize / BLOCK][at as usize % BLOCK].as_mut()
    }

    fn remove(&mut self, at: u32) -> Option<Slot> {
        self.vacant.push(at);
        self.blocks[at as usize / BLOCK][at as usize % BLOCK].take()
    }
}

impl Slots {
    /// Where a key is, if it is known.
    pub(crate) fn find(&self, key: &Key) -> Option<u32> {
        let hash = self.hasher.hash_one(key.as_str());
        self.index.find(hash, |at| self.slab.get(*at).is_some_and(|s| s.key == *key)).copied()
    }

    /// Where each of a few keys is, if it is known.
    ///
    /// In steps over all of them rather than key by key: the loads of one step do not depend on each other, so
    /// the processor waits for many of them at once. With a million keys nearly all the time goes into waiting.
    pub(crate) fn find_some<'a>(&self, keys: impl Iterator<Item = &'a Key> + Clone) -> [Option<u32>; FEW] {
        let (mut hashes, mut found) = ([0; FEW], [None; FEW]);
        std::hint::black_box(keys.clone().fold(0, |seen, key| seen ^ first(key)));
        for (hash, key) in hashes.iter_mut().zip(keys.clone()) {
            *hash = self.hasher.hash_one(key.as_str());
        }
        // The first candidate is nearly always the one.
        let mut count = 0;
        for ((found, hash), _) in found.iter_mut().zip(hashes).zip(keys.clone()) {
            *found = self.index.find(hash, |_| true).copied();
            count += 1;
        }
        let likely = || found[..count].iter().flatten().filter_map(|at| self.slab.get(*at));
        std::hint::black_box(likely().fold(0, |seen, slot| seen ^ slot.peek()));
        std::hint::black_box(likely().fold(0, |seen, slot| seen ^ first(&slot.key)));
        for ((found, hash), key) in found.iter_mut().zip(hashes).zip(keys) {
            let same = |at: &u32| self.slab.get(*at).is_some_and(|slot| slot.key == *key);
            if !found.as_ref().is_some_and(same) {
                *found = self.index.find(hash, same).copied();
            }
        }
        found
    }

    /// Where a key is; it is made known if it was not.
    pub(crate) fn find_or_insert(&mut self, key: &Key) -> u32 {
        if let Some(at) = self.find(key) {
            return at;
        }
        let slot =
            Slot { key: key.clone(), entry: Entry::default(), durable_ttl: None, armed: None, rare: None };
        let at = self.slab.insert(slot);
        let (slab, hasher) = (&self.slab, &self.hasher);
        let hash_of = |at: &u32| slab.get(*at).map_or(0, |s| hasher.hash_one(s.key.as_str()));
        self.index.insert_unique(hasher.hash_one(key.as_str()), at, hash_of);
        self.order.insert(key.clone(), at);
        at
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Slot> {
        self.find(key).and_then(|at| self.slab.get(at))
    }

    pub(crate) fn at(&self, at: u32) -> Option<&Slot> {
        self.slab.get(at)
    }

    pub(crate) fn at_mut(&mut self, at: u32) -> Option<&mut Slot> {
        self.slab.get_mut(at)
    }

    /// Forgets a key altogether.
    pub(crate) fn remove(&mut self, at: u32) -> Option<Slot> {
        let slot = self.slab.remove(at)?;
        let hash = self.hasher.hash_one(slot.key.as_str());
        if let Ok(found) = self.index.find_entry(hash, |other| *other == at) {
            found.remove();
        }
        self.order.remove(&slot.key);
        Some(slot)
    }

    /// Places in key order, from `from` on.
    pub(crate) fn ordered<'a>(&'a self, from: &'a str) -> impl Iterator<Item = u32> + 'a {
        let start = (std::ops::Bound::Included(from), std::ops::Bound::Unbounded);
        self.order.range::<str, _>(start).map(|(_, at)| *at)
    }

    /// Makes sure that the slot is looked at when time next changes it. A timer that fires too early costs one
    /// look; so renewals, which only move the moment away, need no timer work.
    pub(crate) fn arm(&mut self, at: u32) {
        let Some(slot) = self.slab.get_mut(at) else { return };
        if let Some(when) = slot.entry.next_change()
            && slot.armed.is_none_or(|armed| when < armed)
        {
            slot.armed = Some(when);
            self.timers.push(Reverse((when, at)));
        }
    }

    /// The next slot that time has changed at `now`, its timer taken off the heap. Each timer looked at takes
    /// one of `looks`: those of renewed leases are only set again, and a million may be due in one moment.
    pub(crate) fn due(&mut self, now: Tick, looks: &mut usize) -> Option<u32> {
        while *looks > 0 {
            let Reverse((when, at)) = *self.timers.peek()?;
            if when > now {
                return None;
            }
            *looks -= 1;
            self.timers.pop();
            // A timer that is not the slot's current one was replaced by an earlier one, or its slot is gone.
            if let Some(slot) = self.slab.get_mut(at)
                && slot.armed == Some(when)
            {
                slot.armed = None;
                if slot.entry.next_change().is_some_and(|change| change <= now) {
                    return Some(at);
                }
                self.arm(at);
            }
        }
        None
    }

    /// When the next timer is due.
    pub(crate) fn next_due(&self) -> Option<Tick> {
        self.timers.peek().map(|Reverse((when, _))| *when)
    }
}

//! Where the entries of all keys sit: a slab found by hash and by order, with one timer per key.
//!
//! An entry is kept in two parts: the terms of a running reign, which renewals read and write, and the rest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;
use lease::breaks::{Break, broken};
use lease::rules::{Entry, State, Tenant};
use lease::{End, Generation, Holder, Key, Meta, Origin, Reign, Renewal, Tick, Ttl, Wall, limits};

use super::index::Index;
use super::queue::Queue;
use super::terms::{AllTerms, Terms};

/// One key and what is known of it besides the terms of its reign.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) key: Key,
    /// The last generation minted.
    pub(crate) last: Option<Generation>,
    seat: Seat,
    /// The timer in the heap that will look at this slot; there is none at the very start of the clock.
    armed: Tick,
    rare: Option<Box<Rare>>,
}

/// A state without the terms of a reign.
#[derive(Debug)]
enum Seat {
    Free,
    Held { holder: Holder, since: Wall, meta: Meta, origin: Origin },
    Delayed { until: Tick },
    Reserved { to: Holder, until: Tick },
}

/// No timer.
const UNARMED: Tick = Tick::from_nanos(0);

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
    pub(crate) fn is_free(&self) -> bool {
        matches!(self.seat, Seat::Free)
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
        self.prune(now);
        if self.tombs.len() == limits::WAITERS {
            self.tombs.remove(0);
        }
        self.tombs.push((token, until));
    }

    /// Drops the marks whose time is over.
    pub(crate) fn prune(&mut self, now: Tick) {
        self.tombs.retain(|(_, end)| now < *end);
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
    index: Index,
    order: BTreeMap<Key, u32>,
    slab: Slab,
    terms: AllTerms,
    timers: BinaryHeap<Reverse<(Tick, u32)>>,
}

/// Slots in blocks, so that growing never copies and never doubles what is resident.
#[derive(Debug, Default)]
struct Slab {
    blocks: Vec<Vec<Option<Slot>>>,
    vacant: Vec<u32>,
}

const BLOCK: usize = 1_024;
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
    pub(crate) fn hash(&self, key: &Key) -> u64 {
        self.hasher.hash_one(key.as_str())
    }

    /// Where a key is, if it is known.
    pub(crate) fn find(&self, key: &Key) -> Option<u32> {
        let hash = self.hash(key);
        let same = |at| self.terms.get(at).hash == hash && self.slab.get(at).is_some_and(|s| s.key == *key);
        self.index.find(hash, same)
    }

    /// Fetches what [`Self::likely`] will look at.
    #[inline]
    pub(crate) fn soon(&self, hash: u64) {
        self.index.soon(hash);
    }

    /// Where the key of this hash most likely is. Fetches the terms there.
    #[inline]
    pub(crate) fn likely(&self, hash: u64) -> Option<u32> {
        self.index.likely(hash).inspect(|at| hints::soon(self.terms.get(*at)))
    }

    /// Prolongs a reign where that needs no more than its terms; see [`Terms::prolong`].
    #[inline]
    pub(crate) fn prolong(&mut self, at: u32, hash: u64, item: &Renewal, now: Tick) -> Option<Ttl> {
        self.terms.get_mut(at).prolong(hash, item, now)
    }

    /// Where a key is; it is made known if it was not.
    pub(crate) fn find_or_insert(&mut self, key: &Key) -> u32 {
        if let Some(at) = self.find(key) {
            return at;
        }
        let slot = Slot { key: key.clone(), last: None, seat: Seat::Free, armed: UNARMED, rare: None };
        let at = self.slab.insert(slot);
        let hash = self.hash(key);
        self.terms.set(at, Terms::free(hash));
        self.index.insert(hash, at);
        self.order.insert(key.clone(), at);
        at
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Slot> {
        self.find(key).and_then(|at| self.slab.get(at))
    }

    /// The entry of a key, if it is known.
    pub(crate) fn entry_of(&self, key: &Key) -> Option<Entry> {
        self.find(key).and_then(|at| self.entry(at))
    }

    /// An entry, put together from its parts.
    pub(crate) fn entry(&self, at: u32) -> Option<Entry> {
        let slot = self.slab.get(at)?;
        let state = match &slot.seat {
            Seat::Free => State::Free,
            Seat::Delayed { until } => State::Delayed { until: *until },
            Seat::Reserved { to, until } => State::Reserved { to: to.clone(), until: *until },
            Seat::Held { holder, since, meta, origin } => {
                let Terms { generation, digest, expires, ttl, .. } = *self.terms.get(at);
                State::Held(Tenant {
                    holder: holder.clone(),
                    digest,
                    generation: generation?,
                    ttl,
                    expires,
                    since: *since,
                    meta: meta.clone(),
                    origin: *origin,
                })
            }
        };
        Some(Entry { last: slot.last, state })
    }

    /// Puts a key into a state, of which nothing is on disk yet.
    pub(crate) fn set(&mut self, at: u32, state: State) {
        let Some(slot) = self.slab.get_mut(at) else { return };
        let terms = self.terms.get_mut(at);
        *terms = Terms::free(terms.hash);
        slot.seat = match state {
            State::Free => Seat::Free,
            State::Delayed { until } => Seat::Delayed { until },
            State::Reserved { to, until } => Seat::Reserved { to, until },
            State::Held(tenant) => {
                let Tenant { holder, digest, generation, ttl, expires, since, meta, origin } = tenant;
                terms.generation = Some(generation);
                (terms.digest, terms.ttl, terms.expires) = (digest, ttl, expires);
                Seat::Held { holder, since, meta, origin }
            }
        };
    }

    /// The terms of the reign at a place; of no use while nobody reigns.
    pub(crate) fn terms_mut(&mut self, at: u32) -> &mut Terms {
        self.terms.get_mut(at)
    }

    /// When the reign of a remote holder was granted or last renewed.
    pub(crate) fn remote_since(&self, at: u32) -> Option<Tick> {
        let Terms { expires, ttl, .. } = *self.terms.get(at);
        let remote = matches!(self.slab.get(at)?.seat, Seat::Held { origin: Origin::Remote, .. });
        remote.then(|| expires - ttl.as_duration())
    }

    /// When time alone will next change this key.
    fn next_change(&self, at: u32) -> Option<Tick> {
        let slot = self.slab.get(at)?;
        match &slot.seat {
            // One that was never granted is of no use after its last mark.
            Seat::Free if slot.last.is_none() => slot.rare()?.tombs.last().map(|(_, until)| *until),
            Seat::Free => None,
            Seat::Held { .. } => Some(self.terms.get(at).expires),
            Seat::Delayed { until } | Seat::Reserved { until, .. } => Some(*until),
        }
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
        self.index.remove(self.terms.get(at).hash, at);
        self.terms.set(at, Terms::free(0));
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
        if let Some(when) = self.next_change(at)
            && let Some(slot) = self.slab.get_mut(at)
            && (slot.armed == UNARMED || when < slot.armed)
        {
            slot.armed = when;
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
                && slot.armed == when
            {
                slot.armed = UNARMED;
                if self.next_change(at).is_some_and(|change| change <= now) {
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

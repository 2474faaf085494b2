//! The slots of all keys: a slab indexed by hash and by order, with one timer per key.
//!
//! A slot has two parts: the hot part, which renewals read and write, and the rest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::hash::BuildHasher;

use hashbrown::DefaultHashBuilder;
use tenure_lease::breaks::{Break, broken};
use tenure_lease::rules::{ActiveReign, Entry, State};
use tenure_lease::{
    End, Fence, Generation, Holder, Key, Meta, Origin, Reign, Renewal, Tick, Ttl, Wall, limits,
};

use super::hot_slots::{HotSlot, HotSlots};
use super::index::Index;
use super::queue::Queue;
use super::spent_tokens::{ShortDigest, SpentTokens};

/// One key and its state, except for the hot part.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) key: Key,
    /// The last generation minted.
    pub(crate) last: Option<Generation>,
    state: SlotState,
    /// The time of this slot's timer in the heap.
    armed: Tick,
    details: Option<Box<SlotDetails>>,
}

/// The state of a slot, except for the hot part of a reign.
#[derive(Debug)]
enum SlotState {
    Free,
    Held { holder: Holder, since: Wall, meta: Meta, origin: Origin },
    Delayed { until: Tick },
    Reserved { to: Holder, until: Tick },
}

/// No timer.
const UNARMED: Tick = Tick::from_nanos(0);

/// What most keys do not have most of the time.
#[derive(Debug, Default)]
pub(crate) struct SlotDetails {
    pub(crate) queue: Queue,
    pub(crate) past: VecDeque<PastReign>,
    /// The number of finished reigns, which determines the row of the next one.
    pub(crate) ended: u64,
    /// Tokens that were released without holding anything.
    pub(crate) tombstones: SpentTokens,
    /// Spent tokens of reigns that the history no longer shows.
    pub(crate) spent: SpentTokens,
}

/// A finished reign.
#[derive(Clone, Debug)]
pub(crate) struct PastReign {
    pub(crate) holder: Holder,
    pub(crate) generation: Generation,
    pub(crate) from: Wall,
    pub(crate) until: Wall,
    pub(crate) end: End,
    pub(crate) token: ShortDigest,
    /// When it ended, or when the store was opened after that.
    pub(crate) ended: Tick,
}

impl PastReign {
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
        matches!(self.state, SlotState::Free)
    }

    pub(crate) fn details(&self) -> Option<&SlotDetails> {
        self.details.as_deref()
    }

    pub(crate) fn details_mut(&mut self) -> &mut SlotDetails {
        self.details.get_or_insert_default()
    }

    pub(crate) fn waiters(&self) -> u32 {
        self.details().map_or(0, |details| details.queue.len() as u32)
    }

    /// Whether this token is spent on this key, or has a tombstone.
    pub(crate) fn spent(&self, token: &ShortDigest, now: Tick) -> bool {
        self.details().is_some_and(|details| {
            let served = details.past.iter().any(|p| p.token == *token && p.end.spends_token())
                || details.spent.contains(token, now);
            (served && !broken(Break::TokenReuse)) || details.tombstones.contains(token, now)
        })
    }

    /// Whether the history shows the reign that a fence names.
    pub(crate) fn reigned(&self, fence: &Fence) -> bool {
        let token = fence.token.digest().short();
        self.details().is_some_and(|details| {
            details.past.iter().any(|past| past.generation == fence.generation && past.token == token)
        })
    }

    /// Whether this token held this key or has a tombstone, as far as the history shows.
    pub(crate) fn known(&self, token: &ShortDigest, now: Tick) -> bool {
        self.details().is_some_and(|details| {
            details.past.iter().any(|p| p.token == *token)
                || details.spent.contains(token, now)
                || details.tombstones.contains(token, now)
        })
    }
}

impl SlotDetails {
    /// Whether a token is refused for a while, whatever the history shows.
    pub(crate) fn refuses_tokens(&self) -> bool {
        !self.tombstones.is_empty() || !self.spent.is_empty()
    }

    /// Adds a finished reign to the history and returns its row number, and the reign that the history no longer shows.
    pub(crate) fn remember(&mut self, past: PastReign) -> (u64, Option<PastReign>) {
        let oldest = if self.past.len() == limits::REIGNS { self.past.pop_front() } else { None };
        self.past.push_back(past);
        self.ended += 1;
        ((self.ended - 1) % limits::REIGNS as u64, oldest)
    }
}

/// All slots.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    hasher: DefaultHashBuilder,
    index: Index,
    order: BTreeMap<Key, u32>,
    slab: Slab,
    hot: HotSlots,
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

    /// The slot of a key, if there is one.
    pub(crate) fn find(&self, key: &Key) -> Option<u32> {
        let hash = self.hash(key);
        let same = |at| self.hot.get(at).hash == hash && self.slab.get(at).is_some_and(|s| s.key == *key);
        self.index.find(hash, same)
    }

    /// Prefetches what [`Self::likely`] reads.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.index.prefetch(hash);
    }

    /// The most likely slot of a hash, with its hot part prefetched.
    #[inline]
    pub(crate) fn likely(&self, hash: u64) -> Option<u32> {
        self.index.likely(hash).inspect(|at| tenure_hints::prefetch(self.hot.get(*at)))
    }

    /// Renews a reign if that needs no more than the hot part; see [`HotSlot::try_renew`].
    #[inline]
    pub(crate) fn try_renew(&mut self, at: u32, hash: u64, item: &Renewal, now: Tick) -> Option<Ttl> {
        self.hot.get_mut(at).try_renew(hash, item, now)
    }

    /// The slot of a key, created if there is none.
    pub(crate) fn find_or_insert(&mut self, key: &Key) -> u32 {
        if let Some(at) = self.find(key) {
            return at;
        }
        let slot =
            Slot { key: key.clone(), last: None, state: SlotState::Free, armed: UNARMED, details: None };
        let at = self.slab.insert(slot);
        let hash = self.hash(key);
        self.hot.set(at, HotSlot::free(hash));
        self.index.insert(hash, at);
        self.order.insert(key.clone(), at);
        at
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Slot> {
        self.find(key).and_then(|at| self.slab.get(at))
    }

    /// The entry of a key, if it has a slot.
    pub(crate) fn entry_of(&self, key: &Key) -> Option<Entry> {
        self.find(key).and_then(|at| self.entry(at))
    }

    /// The entry of a slot, assembled from its parts.
    pub(crate) fn entry(&self, at: u32) -> Option<Entry> {
        let slot = self.slab.get(at)?;
        let state = match &slot.state {
            SlotState::Free => State::Free,
            SlotState::Delayed { until } => State::Delayed { until: *until },
            SlotState::Reserved { to, until } => State::Reserved { to: to.clone(), until: *until },
            SlotState::Held { holder, since, meta, origin } => {
                let HotSlot { generation, digest, expires, ttl, .. } = *self.hot.get(at);
                State::Held(ActiveReign {
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

    /// Sets the state of a slot. Nothing of it is on disk yet.
    pub(crate) fn set(&mut self, at: u32, state: State) {
        let Some(slot) = self.slab.get_mut(at) else { return };
        let hot = self.hot.get_mut(at);
        *hot = HotSlot::free(hot.hash);
        slot.state = match state {
            State::Free => SlotState::Free,
            State::Delayed { until } => SlotState::Delayed { until },
            State::Reserved { to, until } => SlotState::Reserved { to, until },
            State::Held(tenant) => {
                let ActiveReign { holder, digest, generation, ttl, expires, since, meta, origin } = tenant;
                hot.generation = Some(generation);
                (hot.digest, hot.ttl, hot.expires) = (digest, ttl, expires);
                SlotState::Held { holder, since, meta, origin }
            }
        };
    }

    /// The hot part of a slot; meaningless while the key is not held.
    pub(crate) fn hot(&self, at: u32) -> &HotSlot {
        self.hot.get(at)
    }

    /// The hot part of a slot; meaningless while the key is not held.
    pub(crate) fn hot_mut(&mut self, at: u32) -> &mut HotSlot {
        self.hot.get_mut(at)
    }

    /// When this slot next expires.
    fn next_change(&self, at: u32) -> Option<Tick> {
        let slot = self.slab.get(at)?;
        match &slot.state {
            // Tokens that are no longer refused are dropped, and with the last one a key that was never granted.
            SlotState::Free => {
                let details = slot.details()?;
                details.tombstones.last_end().max(details.spent.last_end())
            }
            SlotState::Held { .. } => Some(self.hot.get(at).expires),
            SlotState::Delayed { until } | SlotState::Reserved { until, .. } => Some(*until),
        }
    }

    pub(crate) fn at(&self, at: u32) -> Option<&Slot> {
        self.slab.get(at)
    }

    pub(crate) fn at_mut(&mut self, at: u32) -> Option<&mut Slot> {
        self.slab.get_mut(at)
    }

    /// Removes a key.
    pub(crate) fn remove(&mut self, at: u32) -> Option<Slot> {
        let slot = self.slab.remove(at)?;
        self.index.remove(self.hot.get(at).hash, at);
        self.hot.set(at, HotSlot::free(0));
        self.order.remove(&slot.key);
        Some(slot)
    }

    /// Slots in key order, from `from` on.
    pub(crate) fn ordered<'a>(&'a self, from: &'a str) -> impl Iterator<Item = u32> + 'a {
        let start = (std::ops::Bound::Included(from), std::ops::Bound::Unbounded);
        self.order.range::<str, _>(start).map(|(_, at)| *at)
    }

    /// Arms a timer for the next expiry of a slot. A timer that fires too early costs one check, so renewals, which only
    /// postpone the expiry, need no timer work.
    pub(crate) fn arm(&mut self, at: u32) {
        if let Some(when) = self.next_change(at)
            && let Some(slot) = self.slab.get_mut(at)
            && (slot.armed == UNARMED || when < slot.armed)
        {
            slot.armed = when;
            self.timers.push(Reverse((when, at)));
        }
    }

    /// The next slot that is due at `now`, with its timer removed. Each timer takes one of `checks`: timers of renewed leases
    /// are only armed again, and a million may fire at once.
    pub(crate) fn due(&mut self, now: Tick, checks: &mut usize) -> Option<u32> {
        while *checks > 0 {
            let Reverse((when, at)) = *self.timers.peek()?;
            if when > now {
                return None;
            }
            *checks -= 1;
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

//! The hash index of slots.

/// Slots by hash, in buckets of one cache line each, so that a lookup costs one cache miss.
#[derive(Debug)]
pub(crate) struct Index {
    buckets: Vec<Bucket>,
    /// The binary logarithm of the number of buckets.
    bits: u32,
    len: usize,
}

/// Seven entries, each half of a hash and a slot, and the number of entries that overflowed to the next bucket.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Bucket {
    entries: [u64; ENTRIES],
    overflowed: u64,
}

const ENTRIES: usize = 7;
/// Entries per bucket above which the table grows.
const FULL: usize = 5;

/// The half of a hash that entries keep. Its highest bits select the bucket, so growing needs nothing else.
fn half(hash: u64) -> u64 {
    hash >> 32
}

/// The slot in an entry; `None` in an empty one.
fn slot_of(entry: u64) -> Option<u32> {
    (entry as u32).checked_sub(1)
}

impl Default for Index {
    fn default() -> Self {
        Self { buckets: vec![Bucket::default()], bits: 0, len: 0 }
    }
}

impl Index {
    fn home(&self, half: u64) -> usize {
        (half >> (32 - self.bits)) as usize
    }

    fn next(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.buckets.len() - 1)
    }

    /// Prefetches the first bucket of a hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        tenure_hints::prefetch(&self.buckets[self.home(half(hash))]);
    }

    /// The slot that is nearly always the right one. The caller must check that it is.
    #[inline]
    pub(crate) fn likely(&self, hash: u64) -> Option<u32> {
        let half = half(hash);
        let bucket = &self.buckets[self.home(half)];
        // Without branches: a branch that waits for memory stops the processor's lookahead.
        let pick = |found, entry: &u64| if entry >> 32 == half { *entry } else { found };
        match slot_of(bucket.entries.iter().fold(0, pick)) {
            None if bucket.overflowed > 0 => self.search(half, slot_of),
            found => found,
        }
    }

    /// The slot with this hash for which `is` holds.
    pub(crate) fn find(&self, hash: u64, mut is: impl FnMut(u32) -> bool) -> Option<u32> {
        self.search(half(hash), |entry| slot_of(entry).filter(|at| is(*at)))
    }

    /// Searches the entries of half a hash.
    fn search<T>(&self, half: u64, mut accept: impl FnMut(u64) -> Option<T>) -> Option<T> {
        let mut at = self.home(half);
        loop {
            let bucket = &self.buckets[at];
            let found = bucket.entries.iter().filter(|entry| **entry >> 32 == half).find_map(|e| accept(*e));
            if found.is_some() || bucket.overflowed == 0 {
                return found;
            }
            at = self.next(at);
        }
    }

    /// Adds a slot that is not in the index.
    pub(crate) fn insert(&mut self, hash: u64, at: u32) {
        if self.len == self.buckets.len() * FULL {
            self.grow();
        }
        self.put(half(hash) << 32 | (u64::from(at) + 1));
        self.len += 1;
    }

    fn put(&mut self, entry: u64) {
        let mut at = self.home(entry >> 32);
        // There is always a bucket with room: on average two entries are free.
        loop {
            let bucket = &mut self.buckets[at];
            if let Some(empty) = bucket.entries.iter_mut().find(|entry| **entry == 0) {
                *empty = entry;
                return;
            }
            bucket.overflowed += 1;
            at = self.next(at);
        }
    }

    /// Removes a slot.
    pub(crate) fn remove(&mut self, hash: u64, slot: u32) {
        let entry = half(hash) << 32 | (u64::from(slot) + 1);
        if self.search(half(hash), |other| (other == entry).then_some(())).is_none() {
            return;
        }
        let mut at = self.home(half(hash));
        loop {
            let bucket = &mut self.buckets[at];
            if let Some(found) = bucket.entries.iter_mut().find(|other| **other == entry) {
                *found = 0;
                self.len -= 1;
                return;
            }
            bucket.overflowed -= 1;
            at = self.next(at);
        }
    }

    fn grow(&mut self) {
        let len = self.buckets.len() * 2;
        let mut buckets = Vec::with_capacity(len);
        tenure_hints::advise_huge_pages(&mut buckets);
        buckets.resize(len, Bucket::default());
        let old = std::mem::replace(&mut self.buckets, buckets);
        self.bits += 1;
        for entry in old.iter().flat_map(|bucket| bucket.entries).filter(|entry| *entry != 0) {
            self.put(entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Few different hashes, so that entries share their half and overflow.
        #[test]
        fn every_slot_is_found_until_it_is_removed(
            steps in prop::collection::vec((0..12u64, 0..30u32, any::<bool>()), 0..400),
        ) {
            let (mut index, mut model) = (Index::default(), BTreeSet::new());
            let hash = |n: u64| (n % 3) << 62 | (n / 3) << 32 | n;
            for (n, at, insert) in steps {
                if insert && model.insert((n, at)) {
                    index.insert(hash(n), at);
                } else if !insert {
                    model.remove(&(n, at));
                    index.remove(hash(n), at);
                }
                let found = (0..30).filter(|at| index.find(hash(n), |other| other == *at).is_some());
                let expected = model.iter().filter(|(other, _)| *other == n).map(|(_, at)| *at);
                prop_assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
                prop_assert_eq!(index.len, model.len());
            }
            model.iter().for_each(|(n, at)| index.remove(hash(*n), *at));
            prop_assert!(index.buckets.iter().all(|bucket| bucket.entries == [0; ENTRIES] && bucket.overflowed == 0));
        }
    }

    #[test]
    fn the_likely_slot_is_the_right_one_when_hashes_differ() {
        let mut index = Index::default();
        let hash = |n: u32| u64::from(n).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..100_000).for_each(|n| index.insert(hash(n), n));
        let right = (0..100_000).filter(|n| index.likely(hash(*n)) == Some(*n)).count();
        assert!(right > 99_900, "{right}");
        assert!((0..100_000).all(|n| index.find(hash(n), |at| at == n) == Some(n)));
    }
}

//! The hot part of every slot: all that a renewal reads and writes, in one cache line each.

use tenure_lease::{Digest, Generation, Renewal, Tick, Ttl};

/// The hot part of one slot.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct HotSlot {
    /// The hash of the key, under this table's own secret.
    pub(crate) hash: u64,
    /// `None` while the key is not held.
    pub(crate) generation: Option<Generation>,
    pub(crate) digest: Digest,
    pub(crate) expires: Tick,
    /// The TTL that a renewal restores.
    pub(crate) ttl: Ttl,
    /// The longest TTL on disk for this reign, in milliseconds; zero when there is none.
    durable: u32,
}

const _: () = assert!(size_of::<HotSlot>() == 64, "a renewal touches one cache line");

impl HotSlot {
    /// A slot that is not held.
    pub(crate) fn free(hash: u64) -> Self {
        let digest = Digest::from_bytes([0; 32]);
        Self { hash, generation: None, digest, expires: Tick::default(), ttl: Ttl::MAX, durable: 0 }
    }

    /// Whether this TTL is longer than what is on disk.
    pub(crate) fn outlasts_disk(&self, ttl: Ttl) -> bool {
        ttl.as_millis() > u64::from(self.durable)
    }

    /// Marks the TTL as written to disk.
    pub(crate) fn set_durable(&mut self) {
        self.durable = self.ttl.as_millis() as u32;
    }

    /// Renews the reign if [`tenure_lease::rules::renew`] allows it and nothing else has to be done: no longer TTL to write,
    /// no earlier expiry to arm. Returns the TTL; `None` requires the slow path.
    ///
    /// The key is compared by its hash alone. The token proves the reign and the generation is compared as well; a caller
    /// with another key would have to hit 64 secret bits, and could then renew what it may renew anyway.
    #[inline]
    pub(crate) fn try_renew(&mut self, hash: u64, item: &Renewal, now: Tick) -> Option<Ttl> {
        let ttl = item.ttl.unwrap_or(self.ttl);
        let same = self.hash == hash
            && self.generation == Some(item.generation)
            && self.digest == *item.token.digest();
        if !same || now >= self.expires || ttl < self.ttl || self.outlasts_disk(ttl) {
            return None;
        }
        self.ttl = ttl;
        self.expires = now + ttl.as_duration();
        Some(ttl)
    }
}

/// The hot part of each slot. Each chunk is as large as all before it, so that growing never copies; large chunks use huge
/// pages.
#[derive(Debug, Default)]
pub(crate) struct HotSlots {
    chunks: Vec<Vec<HotSlot>>,
}

/// The binary logarithm of the size of the first chunk.
const FIRST_BITS: u32 = 10;

/// The chunk of a slot, and the index in it.
fn locate(at: u32) -> (usize, usize) {
    let shifted = u64::from(at) + (1 << FIRST_BITS);
    let top = shifted.ilog2();
    ((top - FIRST_BITS) as usize, (shifted - (1 << top)) as usize)
}

impl HotSlots {
    #[inline]
    pub(crate) fn get(&self, at: u32) -> &HotSlot {
        let (chunk, index) = locate(at);
        &self.chunks[chunk][index]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: u32) -> &mut HotSlot {
        let (chunk, index) = locate(at);
        &mut self.chunks[chunk][index]
    }

    /// Sets a slot that exists, or the first that does not.
    pub(crate) fn set(&mut self, at: u32, hot: HotSlot) {
        let (chunk, index) = locate(at);
        if self.chunks.len() == chunk {
            let mut memory = Vec::with_capacity(1 << (FIRST_BITS as usize + chunk));
            tenure_hints::advise_huge_pages(&mut memory);
            self.chunks.push(memory);
        }
        match self.chunks[chunk].get_mut(index) {
            Some(old) => *old = hot,
            None => self.chunks[chunk].push(hot),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_its_own_hot_part() {
        let mut all = HotSlots::default();
        (0..10_000).for_each(|at| all.set(at, HotSlot::free(u64::from(at))));
        (0..10_000).step_by(3).for_each(|at| all.set(at, HotSlot::free(0)));
        for at in 0..10_000 {
            assert_eq!(all.get(at).hash, if at % 3 == 0 { 0 } else { u64::from(at) }, "{at}");
        }
        assert!(all.chunks.iter().all(|chunk| chunk.len() <= chunk.capacity()));
        assert_eq!(locate(u32::MAX), (22, 1_023));
    }
}
